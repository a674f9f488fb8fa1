"""Whether every backend is profiled after the timed launches."""

from dataclasses import dataclass

UNHASHED = ("explain",)


@dataclass(kw_only=True)
class Settings:
    """Keys of `measure`."""

    explain: bool | None = None  # null: unless the preset is a short one
