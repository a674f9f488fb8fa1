"""How each sharding looks in the figures about many GPUs: hollow if predicted, or filled."""

from dataclasses import dataclass
from typing import Any

from bench.report.figures.style import Theme


@dataclass(frozen=True)
class ShardingLook:
    """How a sharding is drawn.

    Sizes of markers differ: hollow ones at the same place are all seen, and a smaller filled one lies on the
    larger. Lines are told apart without colour, and none is solid.
    """

    marker: str
    colour: str  # of Okabe and Ito's palette, which holds for colour-blind readers
    hollow: float = 5.0  # points of a marker
    filled: float = 4.4
    dashes: tuple[float, ...] = (2.0, 2.0)  # points of dash and gap


LOOKS = {
    "ddp": ShardingLook("o", "#0072B2", 5.6, 4.4, (6.0, 2.0)),
    "zero_redundancy": ShardingLook("s", "#56B4E9", 6.8, 7.4, (1.2, 1.4)),
    "zero1": ShardingLook("^", "#D55E00", 5.2, 6.2, (3.2, 1.6)),
    "zero1_native": ShardingLook("v", "#CC79A7", 5.2, 6.2, (1.2, 2.6)),
    "zero2": ShardingLook("D", "#E69F00", 4.4, 3.2, (6.0, 1.6, 1.2, 1.6)),
    "zero3": ShardingLook("P", "#009E73", 5.8, 7.0, (3.0, 1.4, 1.0, 1.4, 1.0, 1.4)),
    "fsdp2": ShardingLook("h", "#8C8C8C", 7.4, 5.6, (9.0, 3.0)),
}

OTHER_LOOKS = (
    ShardingLook("<", "#999999"),
    ShardingLook(">", "#CC79A7"),
    ShardingLook("8", "#009E73"),
    ShardingLook("d", "#56B4E9"),
)


def look(sharding: str) -> ShardingLook:
    """How a sharding is drawn; unknown ones get theirs by name."""
    return LOOKS.get(sharding) or OTHER_LOOKS[sum(sharding.encode()) % len(OTHER_LOOKS)]


def hollow(sharding: str) -> dict[str, Any]:
    """The marker of what was predicted."""
    kind = look(sharding)
    return {"marker": kind.marker, "mfc": "none", "mec": kind.colour, "mew": 1.0, "markersize": kind.hollow}


def filled(sharding: str, theme: Theme) -> dict[str, Any]:
    """The marker of what was measured, too."""
    kind = look(sharding)
    rim = {"mec": theme.ink, "mew": 0.5}
    return {"marker": kind.marker, "mfc": kind.colour, **rim, "markersize": kind.filled}


def crossed(theme: Theme) -> dict[str, Any]:
    """What crosses out the marker of what would not fit."""
    return {"marker": "x", "mec": theme.ink, "mew": 0.8, "markersize": 3.8}
