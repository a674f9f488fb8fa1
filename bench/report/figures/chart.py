"""Horizontal charts of any length: panels of groups of rows, laid out in inches so that nothing overlaps.

A row is data. All rows of a panel are drawn together, kind by kind, since hundreds of rows have to take
no longer than a moment.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import Normal, Stroke

from bench.report.figures import style
from bench.report.figures.style import LIGHT
from bench.report.words.formatting import one_line

ROW = 0.27
"""Inches from one row to the next."""

BAR = 0.2
HEADING = 0.26
LINE = 0.155
GAP = 0.1
AXIS = 0.36
"""Inches below a panel for its ticks."""

CHARACTER = 0.074
"""Inches that a character of a name takes, on average."""

LONGEST_NAME = 24
"""Characters of a name; a longer one is shortened."""

MARGIN = 1.75
"""Inches to the right of the bars, for words."""

LEGEND = 0.2
"""Inches that a line of the legend takes."""

LEGEND_COLUMNS = 5

Floats = npt.NDArray[np.float64]

ON_WHITE = {"boxstyle": "round,pad=0.15", "facecolor": LIGHT.ground, "edgecolor": "none"}
"""Behind words that lines, colours and hatches would cut into."""


def rim(width: float) -> list[Any]:
    """Sets a line off from bars behind it, bright ones on a dark screen, too."""
    return [Stroke(linewidth=width, foreground=LIGHT.ground), Normal()]


DOTS: dict[str, dict[str, Any]] = {
    "faint": {"marker": "o", "markersize": 2.4, "color": LIGHT.ink, "alpha": 0.3, "mew": 0, "zorder": 5},
    "end": {"marker": "|", "markersize": 6, "color": LIGHT.ink, "zorder": 6},
    "best": {"marker": "|", "markersize": 17, "color": LIGHT.status, "mew": 2, "zorder": 7},
    "published": {
        "marker": "D",
        "markersize": 5,
        "color": LIGHT.ground,
        "mec": LIGHT.ink,
        "mew": 1,
        "zorder": 8,
    },
    "point": {"marker": "o", "markersize": 3.6, "mec": style.EDGE, "mew": 0.4, "zorder": 3},
    "above": {"marker": "^", "markersize": 3.6, "mec": style.EDGE, "mew": 0.4, "zorder": 3},
    "below": {"marker": "v", "markersize": 3.6, "mec": style.EDGE, "mew": 0.4, "zorder": 3},
}
"""Kinds of dots; those without a colour have the backend's."""


@dataclass(frozen=True, kw_only=True)
class Dots:
    """Dots of one kind in a row.

    Attributes:
        kind: one of `DOTS`.
        along: where on the axis, an array of shape (dots,).
        down: inches below the row's middle, of the same shape.
    """

    kind: str
    along: Floats
    down: Floats


@dataclass(frozen=True, kw_only=True)
class Row:
    """One backend.

    Attributes:
        name: the backend's, which also fixes colour and hatch.
        bar: where its bar ends, if it has one.
        stack: kinds of `style.STACKED` and how long each is, from the foot on; in place of `bar`.
        whisker: both ends of an interval.
        dots: anything that is drawn as dots.
        rules: where on the axis short vertical lines stand.
        inside: words at the foot of the bar.
        beside: words to the right of the panel.
        absent: what stands in place of a bar: a status, or why there is no number.
    """

    name: str
    bar: float | None = None
    stack: Sequence[tuple[str, float]] = ()
    whisker: tuple[float, float] | None = None
    dots: Sequence[Dots] = ()
    rules: Sequence[float] = ()
    inside: str = ""
    beside: str = ""
    absent: str = ""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The rows of one comparison under its heading."""

    heading: str
    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The comparisons on one machine, which share an axis."""

    title: str
    groups: Sequence[Group]
    row: float = ROW  # inches from one row to the next

    @property
    def inches(self) -> float:
        """Its height without title and ticks."""
        return GAP + sum(HEADING * _lines(_heading(g)) + self.row * len(g.rows) + GAP for g in self.groups)


def draw(
    title: str,
    panels: Sequence[Panel],
    *,
    label: str,
    caption: str,
    decorate: Callable[[Axes], object],
    legend: Mapping[str, tuple[str, str]] | None = None,
) -> Figure:
    """Draw a figure of these panels, one below the other.

    Args:
        title: of the whole.
        panels: at least one.
        label: of the axis, with its unit.
        caption: how to read it.
        decorate: sets limits, scale and lines of one panel's axes, after its rows.
        legend: words, and the colour and hatch they explain.
    """
    title = wrapped(title, 70)
    caption = wrapped(caption, 100)
    titles = [wrapped(panel.title, 84) for panel in panels]
    names = [row.name for panel in panels for group in panel.groups for row in group.rows]
    longest = max((min(len(name), LONGEST_NAME) for name in names), default=0)
    left = 0.25 + CHARACTER * longest
    legend_inches = LEGEND * math.ceil(len(legend or ()) / LEGEND_COLUMNS)
    top = 0.2 + 1.25 * LINE * _lines(title) + legend_inches
    bottom = 0.34 + LINE * _lines(caption)
    heights = [
        LINE * _lines(words) + 0.12 + panel.inches + AXIS for words, panel in zip(titles, panels, strict=True)
    ]
    width, height = style.WIDTH_INCHES, top + sum(heights) + bottom
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    figure.text(0.1 / width, 1 - 0.1 / height, title, va="top", fontweight="bold", fontsize=10)
    figure.text(0.1 / width, 0.08 / height, caption, va="bottom", color=LIGHT.faint, fontsize=8)
    if legend:
        _legend(figure, legend, (0.1 / width, 1 - (top - legend_inches) / height))
    down = top
    for words, panel, inches in zip(titles, panels, heights, strict=True):
        figure.text(0.1 / width, 1 - down / height, words, va="top", color=LIGHT.faint, fontsize=8.5)
        down += inches
        inner = width - left - MARGIN
        axes = figure.add_axes(
            (left / width, 1 - (down - AXIS) / height, inner / width, panel.inches / height)
        )
        _fill(axes, panel, -left / inner)
        decorate(axes)
    axes.set_xlabel(label)
    return figure


def _fill(axes: Axes, panel: Panel, edge: float) -> None:
    """Headings and rows from top to bottom; the axis of heights counts inches downwards."""
    down: float = GAP
    rows, places = [], []
    for group in panel.groups:
        heading = _heading(group)
        look: dict[str, Any] = {"va": "top", "fontsize": 8.5, "fontweight": "bold", "bbox": ON_WHITE}
        _words(axes, edge + 0.02, down, heading, zorder=5, **look)
        down += HEADING * _lines(heading)
        for row in group.rows:
            rows.append(row)
            places.append(down + panel.row / 2)
            down += panel.row
        down += GAP
    _bars(axes, rows, places)
    _whiskers(axes, rows, places)
    _dots(axes, rows, places)
    _rules(axes, rows, places, 0.45 * panel.row)
    for row, place in zip(rows, places, strict=True):
        _words(axes, -0.02, place, shortened(row.name), ha="right", fontsize=8.5)
        if row.inside:
            _inside(axes, place, row.inside, fontweight="bold")
        if row.absent:
            _inside(axes, place, shortened(row.absent, 52), color=LIGHT.status, style="italic")
        if row.beside:
            _words(axes, 1.02, place, row.beside)
    axes.set_ylim(panel.inches, 0)
    axes.set_yticks([])
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=LIGHT.grid, linewidth=0.6)


def _bars(axes: Axes, rows: Sequence[Row], places: Sequence[float]) -> None:
    """Each in its backend's colour and hatch, or in those of its parts, one behind the other."""
    by_look: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for row, place in zip(rows, places, strict=True):
        parts = [(style.look(row.name), row.bar)] if row.bar is not None else []
        start = 0.0
        for look, length in [*parts, *((style.STACKED[kind], length) for kind, length in row.stack)]:
            by_look.setdefault(look, []).append((place, start, length))
            start += length
    for (colour, hatch), bars in by_look.items():
        down, starts, lengths = zip(*bars, strict=True)
        edge: dict[str, Any] = {"edgecolor": style.EDGE, "linewidth": 0.6}
        axes.barh(down, lengths, left=starts, height=BAR, color=colour, hatch=hatch, **edge)


def _legend(figure: Figure, legend: Mapping[str, tuple[str, str]], corner: tuple[float, float]) -> None:
    """The legend, its upper left corner at `corner` (shares of the figure)."""
    swatches = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=style.EDGE, linewidth=0.6, label=words)
        for words, (colour, hatch) in legend.items()
    ]
    figure.legend(
        handles=swatches,
        loc="upper left",
        bbox_to_anchor=corner,
        ncols=LEGEND_COLUMNS,
        frameon=False,
        fontsize=8,
        borderpad=0,
        borderaxespad=0,
        handlelength=1.6,
        handletextpad=0.4,
        columnspacing=1.2,
    )


def _whiskers(axes: Axes, rows: Sequence[Row], places: Sequence[float]) -> None:
    there = [(*row.whisker, place) for row, place in zip(rows, places, strict=True) if row.whisker]
    if there:
        low, high, down = zip(*there, strict=True)
        axes.hlines(down, low, high, color=LIGHT.ink, linewidth=1.3, zorder=6, path_effects=rim(2.7))
        axes.plot([*low, *high], [*down, *down], linestyle="none", **DOTS["end"])


def _dots(axes: Axes, rows: Sequence[Row], places: Sequence[float]) -> None:
    by_look: dict[tuple[str, str], list[tuple[Floats, Floats]]] = {}
    for row, place in zip(rows, places, strict=True):
        for dots in row.dots:
            by_look.setdefault((dots.kind, style.look(row.name)[0]), []).append(
                (dots.along, place + dots.down)
            )
    for (kind, colour), all_dots in by_look.items():
        along, down = (np.concatenate(one) for one in zip(*all_dots, strict=True))
        axes.plot(along, down, **{"linestyle": "none", "color": colour} | DOTS[kind])


def _rules(axes: Axes, rows: Sequence[Row], places: Sequence[float], half: float) -> None:
    there = [(along, place) for row, place in zip(rows, places, strict=True) for along in row.rules]
    if there:
        along, down = (np.array(one) for one in zip(*there, strict=True))
        axes.vlines(along, down - half, down + half, color=LIGHT.grid, linewidth=0.8, zorder=1)


def _inside(axes: Axes, place: float, words: str, **look: Any) -> None:
    """Words at the foot of a bar, on white so that colour and hatch do not cut into them."""
    _words(axes, 0.02, place, words, bbox=ON_WHITE, zorder=7, **look)


def _words(axes: Axes, along: float, down: float, words: str, **look: Any) -> None:
    """Words at a share of the panel's width."""
    defaults: dict[str, Any] = {"va": "center_baseline", "fontsize": 8}
    axes.text(along, down, words, transform=axes.get_yaxis_transform(), **defaults | look)


def shortened(words: str, most: int = LONGEST_NAME) -> str:
    """One line of at most so many characters."""
    words = one_line(words)
    return words if len(words) <= most else f"{words[: most - 1]}…"


def wrapped(words: str, width: int) -> str:
    """Broken at spaces, and behind the signs that names are made of; anywhere if need be."""
    lines = [""]
    for piece in re.findall(rf"[^\s_/-]{{0,{width}}}[\s_/-]*", one_line(words)):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _heading(group: Group) -> str:
    return wrapped(group.heading, 84)


def _lines(words: str) -> int:
    return words.count("\n") + 1
