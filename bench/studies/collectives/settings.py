"""Whether collectives are counted after the timed launches."""

from dataclasses import dataclass

from bench.config.fields import one_of

UNHASHED = ("collectives",)


@dataclass(kw_only=True)
class Settings:
    """Keys of `measure`."""

    collectives: str | None = one_of("count", default=None)
