"""Horizontal charts of any length: panels of groups of rows, laid out in inches so that nothing overlaps."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.report import style, text

ROW = 0.27
"""Inches from one row to the next."""

BAR = 0.2
HEADING = 0.26
LINE = 0.155
GAP = 0.1
AXIS = 0.36
"""Inches below a panel for its ticks."""

CHARACTER = 0.074
"""Inches of a character at the size of names, on average."""

LONGEST_NAME = 24
MARGIN = 1.75
"""Inches to the right of the bars, for words."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One backend. `draw` gets the axes and the row's place, in inches from the panel's top."""

    name: str
    draw: Callable[[Axes, float], None]


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
    decorate: Callable[[Axes], None],
) -> Figure:
    """A figure of these panels, one below the other.

    Args:
        title: of the whole.
        panels: at least one.
        label: of the axis, with its unit.
        caption: how to read it.
        decorate: sets limits, scale and lines of one panel's axes, after its rows.
    """
    title = wrapped(title, 70)
    caption = wrapped(caption, 104)
    titles = [wrapped(panel.title, 84) for panel in panels]
    names = [row.name for panel in panels for group in panel.groups for row in group.rows]
    longest = max((min(len(name), LONGEST_NAME) for name in names), default=0)
    left = 0.25 + CHARACTER * longest
    top = 0.2 + 1.25 * LINE * _lines(title)
    bottom = 0.34 + LINE * _lines(caption)
    heights = [
        LINE * _lines(words) + 0.12 + panel.inches + AXIS for words, panel in zip(titles, panels, strict=True)
    ]
    width, height = style.WIDTH_INCHES, top + sum(heights) + bottom
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    figure.text(0.1 / width, 1 - 0.1 / height, title, va="top", fontweight="bold", fontsize=10)
    figure.text(0.1 / width, 0.08 / height, caption, va="bottom", color=style.FAINT, fontsize=8)
    down = top
    for words, panel, inches in zip(titles, panels, heights, strict=True):
        figure.text(0.1 / width, 1 - down / height, words, va="top", color=style.FAINT, fontsize=8.5)
        down += inches
        axes = figure.add_axes(
            (
                left / width,
                1 - (down - AXIS) / height,
                (width - left - MARGIN) / width,
                panel.inches / height,
            )
        )
        _fill(axes, panel, -left / (width - left - MARGIN))
        decorate(axes)
    axes.set_xlabel(label)
    return figure


def _fill(axes: Axes, panel: Panel, edge: float) -> None:
    """Headings and rows from top to bottom; the axis of heights counts inches downwards."""
    place, places, names = GAP, [], []
    for group in panel.groups:
        heading = _heading(group)
        axes.text(
            edge + 0.02,
            place,
            heading,
            transform=axes.get_yaxis_transform(),
            va="top",
            fontsize=8.5,
            fontweight="bold",
        )
        place += HEADING * _lines(heading)
        for row in group.rows:
            places.append(place + panel.row / 2)
            names.append(shortened(row.name))
            row.draw(axes, place + panel.row / 2)
            place += panel.row
        place += GAP
    axes.set_ylim(panel.inches, 0)
    axes.set_yticks(places, names, fontsize=8.5)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)


def bar(axes: Axes, place: float, value: float, backend: str) -> None:
    """A bar in the backend's colour and hatch."""
    colour, hatch = style.look(backend)
    axes.barh(place, value, height=BAR, color=colour, hatch=hatch, edgecolor=style.INK, linewidth=0.6)


def inside(axes: Axes, place: float, words: str, **look: Any) -> None:
    """Words at the foot of a bar, on white so that colour and hatch do not cut into them."""
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    transform = axes.get_yaxis_transform()
    axes.text(
        0.02, place, words, transform=transform, va="center_baseline", fontsize=8, bbox=box, zorder=7, **look
    )


def beside(axes: Axes, place: float, words: str) -> None:
    """Words to the right of the bars."""
    transform = axes.get_yaxis_transform()
    axes.text(1.02, place, words, transform=transform, va="center_baseline", fontsize=8)


def absent(axes: Axes, place: float, words: str) -> None:
    """What stands in place of a bar: a status, or why there is no figure."""
    inside(axes, place, shortened(text.one_line(words), 52), color=style.ALARM, style="italic")


def shortened(words: str, most: int = LONGEST_NAME) -> str:
    """At most so many characters."""
    words = text.one_line(words)
    return words if len(words) <= most else f"{words[: most - 1]}…"


def wrapped(words: str, width: int) -> str:
    """Broken at spaces, and behind the signs that names are made of; anywhere if need be."""
    lines = [""]
    for piece in re.findall(rf"[^\s_/-]{{0,{width}}}[\s_/-]*", text.one_line(words)):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _heading(group: Group) -> str:
    return wrapped(group.heading, 84)


def _lines(words: str) -> int:
    return words.count("\n") + 1
