"""The marker and colour of each sharding in the figures about many GPUs: hollow if predicted, or filled."""

from typing import Any

from bench.report.figures.style import Theme

LOOKS = {
    "ddp": ("o", "#0072B2"),
    "zero_redundancy": ("s", "#56B4E9"),
    "zero1": ("^", "#D55E00"),
    "zero1_native": ("v", "#CC79A7"),
    "zero2": ("D", "#E69F00"),
    "zero3": ("P", "#009E73"),
    "fsdp2": ("h", "#8C8C8C"),
}
"""Marker and colour of a sharding: of Okabe and Ito's palette, which holds for colour-blind readers."""

OTHER_LOOKS = (("<", "#999999"), (">", "#CC79A7"), ("8", "#009E73"), ("d", "#56B4E9"))

SIZES = {"o": 5.6, "s": 6.8, "^": 5.2, "v": 5.2, "D": 4.4, "P": 5.8, "h": 7.4}
"""Of markers, in points: different, so that hollow ones at the same place are all seen."""

FILLED = {"s": 7.4, "P": 7.0, "^": 6.2, "v": 6.2, "h": 5.6, "o": 4.4, "D": 3.2}
"""The same of filled ones: of those at the same place the smaller lies on the larger."""


def look(sharding: str) -> tuple[str, str]:
    """Marker and colour."""
    return LOOKS.get(sharding) or OTHER_LOOKS[sum(sharding.encode()) % len(OTHER_LOOKS)]


def hollow(sharding: str) -> dict[str, Any]:
    """The marker of what was predicted."""
    marker, colour = look(sharding)
    return {"marker": marker, "mfc": "none", "mec": colour, "mew": 1.0, "markersize": SIZES.get(marker, 5.0)}


def filled(sharding: str, theme: Theme) -> dict[str, Any]:
    """The marker of what was measured, too."""
    marker, colour = look(sharding)
    return {
        "marker": marker,
        "mfc": colour,
        "mec": theme.ink,
        "mew": 0.5,
        "markersize": FILLED.get(marker, 4.4),
    }


def crossed(theme: Theme) -> dict[str, Any]:
    """What crosses out the marker of what would not fit."""
    return {"marker": "x", "mec": theme.ink, "mew": 0.8, "markersize": 3.8}
