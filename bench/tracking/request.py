"""What is asked of the process that logs a comparison, and what it answers; both are JSON."""

from dataclasses import dataclass, field

from bench.config.track import Track


@dataclass(frozen=True, kw_only=True)
class TrackRequest:
    """One finished comparison, and the trackers that it is logged to."""

    csv: str
    track: Track


@dataclass(frozen=True, kw_only=True)
class TrackAnswer:
    """What became of it."""

    logged: dict[str, str] = field(default_factory=dict)  # by tracker, where it went
    failed: dict[str, str] = field(default_factory=dict)  # by tracker, why not
