"""What the figures about many GPUs have in common: markers of shardings, and axes on a sheet."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.figures.canvas import Canvas
from bench.report.figures.frame import draw_framed
from bench.report.figures.legend import Swatch
from bench.report.figures.style import Theme

WIDTH = 6.6
"""Inches, as the other figures of a report."""

LEFT = 0.52
"""Inches beside axes, for their ticks and label."""

BELOW = 0.36
"""Inches below axes, likewise."""

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


def themed_axes(figure: Figure, canvas: Canvas, left: float, top: float, wide: float, high: float) -> Axes:
    """Axes at a place in inches from the upper left corner, in the theme's colours."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left / width, 1 - (top + high) / height, wide / width, high / height))
    axes.set_facecolor("none")
    for spine in axes.spines.values():
        spine.set_edgecolor(canvas.theme.faint)
    axes.tick_params(colors=canvas.theme.ink, labelsize=canvas.small, pad=2, length=2, width=0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
    return axes


def framed_sheet(
    canvas: Canvas, *, title: str, legend: Sequence[Swatch], high: float, caption: str
) -> tuple[Figure, float]:
    """A sheet with everything but axes, for which so many inches are left; and where these begin."""
    tops = []

    def reserve(y: float) -> float:
        tops.append(y)
        return y + high

    figure = draw_framed(
        canvas, title=title, legend=legend, panels=[("", reserve)], draw_label=lambda y: y, caption=caption
    )
    return figure, tops[0]


def beside(axes: Axes, along: float, down: float, words: str, **look_of_words: Any) -> None:
    """Words at a share of the axes' width."""
    axes.text(along, down, words, transform=axes.get_yaxis_transform(), va="center_baseline", **look_of_words)
