"""Charts of rows: bars, intervals and marks along a common axis, in groups, and how they are drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill, shorten
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from bench.report.figures import style
from bench.report.figures.style import LETTER, POINTS, WIDTH, Look, rimmed, titled_figure
from bench.report.words.formatting import one_line
from bench.statistics.intervals import Speedup

REACH = 1.5  # an interval that ends beyond 1.5 times the outermost value is cut there
NAMES = 0.36  # the largest share of the width for names left of the axis; longer ones are broken or cut
LINE = 0.13  # inches from one line of small words to the next


@dataclass(frozen=True)
class Bar:
    """A bar between two values."""

    start: float
    end: float
    look: Look


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Markers of one kind in a row."""

    values: Sequence[float] | npt.NDArray[np.float64]  # along the axis
    mark: Mapping[str, Any]  # as `Axes.plot` draws it
    down: Sequence[float] | float = 0  # below the row's middle, in heights of a row


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row."""

    name: str = ""  # left of the axis
    bars: Sequence[Bar] = ()
    interval: tuple[float, float] | None = None  # both ends of a whisker
    marks: Sequence[Marks] = ()
    beside: str = ""  # right of the axis
    reason: str = ""  # why there is no bar: a status, or what forbids it


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows that belong together, at least one."""

    rows: Sequence[Row]
    heading: str = ""  # above the rows
    name: str = ""  # left of all rows
    best: float | None = None  # where a line crosses all rows


@dataclass(frozen=True, kw_only=True)
class RowChart:
    """A whole chart."""

    title: str
    # groups that share an axis, such as those of one machine, by heading; all axes are the same
    panels: Mapping[str, Sequence[RowGroup]]
    limits: tuple[float, float]  # of the axis
    label: str  # of the axis, with its unit
    logarithmic: bool = False
    caption: str = ""  # how to read it: for a page, or a paper's own; not in the picture
    legend: Sequence[Artist] = ()
    line: float | None = None  # where a line stands, such as that of the reference at 1
    row: float = 0.2  # inches from one row to the next
    bar: float = 0.15  # inches of a bar


def ratio_limits(values: Sequence[float], ends: Sequence[float] = ()) -> tuple[float, float]:
    """An axis with 1, all values, and intervals up to `REACH`; intervals may end at 0 or be infinite."""
    low, high = min([0.95, *values]), max([1.05, *values])
    low = min([low, *(max(end, low / REACH) for end in ends)])
    high = max([high, *(min(end, high * REACH) for end in ends)])
    room = (high / low) ** 0.04
    return low / room, high * room


def ends_of(ratio: Speedup) -> tuple[float, float] | None:
    """Both ends of the interval of a ratio, if it has one."""
    return None if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)


def stacked(lengths: Mapping[str, float], looks: Mapping[str, Look]) -> list[Bar]:
    """Bars one behind the other, in the order of `looks`."""
    bars, end = [], 0.0
    for kind, look in looks.items():
        if kind in lengths:
            start, end = end, end + lengths[kind]
            bars.append(Bar(start, end, look))
    return bars


def draw_rows(chart: RowChart, width: float = WIDTH) -> Figure:
    """Draw the chart, `width` inches wide; the height follows from its rows."""
    letters = int(width / LETTER)
    beside_names = int((1 - NAMES) * letters)
    headings = [fill(one_line(heading), beside_names) for heading in chart.panels]
    drawings = [_Panel(chart, groups, letters) for groups in chart.panels.values()]
    heights = [drawing.height for drawing in drawings]
    around = sum(0.35 + LINE * len(heading.splitlines()) for heading in headings)
    legend_lines = sum(len(str(entry.get_label())) + 6 for entry in chart.legend) / letters
    height = sum(heights) + around + 0.6 + 0.2 * (legend_lines + 1)
    figure = titled_figure(chart.title, (width, height), chart.legend)
    panels = figure.subplots(len(drawings), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, heading, drawing in zip(panels, headings, drawings, strict=True):
        axes.set_title(heading, loc="left", fontsize=style.SMALL, color=style.FAINT)
        drawing.draw(axes)
    panels[-1].set_xlabel(fill(one_line(chart.label), beside_names))
    return figure


class _Panel:
    """The groups above one axis: names left of it, numbers right of it; downwards in inches."""

    def __init__(self, chart: RowChart, groups: Sequence[RowGroup], letters: int) -> None:
        self.chart, self.groups, self.letters = chart, groups, letters
        self.names = [fill(one_line(group.name[:200]), int(NAMES * letters)) for group in groups]
        self.headings = [fill(one_line(group.heading), letters) for group in groups]
        self.heights = [
            max(len(group.rows) * chart.row, LINE * len(name.splitlines())) + 0.08
            for group, name in zip(groups, self.names, strict=True)
        ]
        self.height = sum(self.heights) + sum(LINE * len(heading.splitlines()) for heading in self.headings)

    def draw(self, axes: Axes) -> None:
        """Draw all groups on these axes."""
        chart, y = self.chart, 0.0
        axes.set(xscale="log" if chart.logarithmic else "linear", xlim=chart.limits, ylim=(self.height, 0))
        axes.tick_params(labelbottom=True, colors=style.INK, pad=2)
        axes.xaxis.set_major_locator(_locator(chart, int(self.letters / 20)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda tick, _: f"{tick:,g}")
        axes.grid(axis="x")
        ticks: dict[float, str] = {}
        for group, name, heading, height in zip(
            self.groups, self.names, self.headings, self.heights, strict=True
        ):
            if heading:
                at: dict[str, Any] = {"xycoords": ("figure fraction", "data"), "va": "top"}
                words = axes.annotate(heading, (0.01, y), weight="bold", fontsize=POINTS - 0.5, **at)
                words.set_in_layout(False)
                y += LINE * len(heading.splitlines())
            top = y + (height - len(group.rows) * chart.row) / 2
            for number, row in enumerate(group.rows):
                place = top + (number + 0.5) * chart.row
                self._draw_row(axes, row, place)
                ticks[place] = shorten(one_line(row.name), int(NAMES * self.letters), placeholder="…")
            if name:
                ticks |= {place: "" for place in ticks if place > y} | {y + height / 2: name}
            if group.best is not None:
                ends = (top, top + len(group.rows) * chart.row)
                axes.plot([group.best] * 2, ends, linewidth=1.6, color=style.BEST, zorder=5)
            y += height
        if chart.line is not None:
            axes.axvline(chart.line, color=style.INK, linewidth=0.9, zorder=3)
        axes.set_yticks([*ticks], labels=[*ticks.values()])

    def _draw_row(self, axes: Axes, row: Row, y: float) -> None:
        chart = self.chart
        for bar in row.bars:
            start, end = np.clip((bar.start, bar.end), *chart.limits)
            axes.barh(y, end - start, chart.bar, start, zorder=2, **rimmed(bar.look))
            if end != bar.end:  # it goes on there
                _mark_break(axes, end, y, inwards=1 if end == chart.limits[0] else -1)
        ends = np.clip(row.interval or (0, 0), *chart.limits)
        if row.interval and ends[0] < ends[1]:  # else all of it lies beyond the axis
            axes.plot(ends, [y, y], color=style.INK, linewidth=0.8, zorder=6)
            for end, drawn, beyond in zip(row.interval, ends, "<>", strict=True):
                mark: dict[str, Any] = {
                    "marker": "|" if end == drawn else beyond,
                    "markersize": 3.5,
                    "mew": 0.8,
                }
                axes.plot(drawn, y, color=style.INK, zorder=6, clip_on=False, **mark)
        for marks in row.marks:
            places = y + np.multiply(marks.down, chart.row) + np.zeros(len(marks.values))
            look = {"linestyle": "none", "zorder": 7, **marks.mark}
            axes.plot(np.clip(marks.values, *chart.limits), places, **look)
        words: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        words["va"] = "center"
        axes.annotate(row.beside, (1, y), (4, 0), **words)
        if row.reason:
            reason = shorten(one_line(row.reason[:1000]), int(0.5 * self.letters), placeholder=" …")
            words |= {"color": style.STATUS, "style": "italic", "ha": "left" if row.beside else "right"}
            axes.annotate(reason, (0 if row.beside else 1, y), (4 if row.beside else -4, 0), **words)


def _mark_break(axes: Axes, x: float, y: float, *, inwards: int) -> None:
    """A gap in a bar, which goes on beyond the axis."""
    gap = {"facecolor": style.GROUND, "edgecolor": "none", "pad": 0.3}
    beside: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "center"}
    axes.annotate("//", (x, y), (14 * inwards, 0), weight="bold", bbox=gap, zorder=8, **beside)


def _locator(chart: RowChart, most: int) -> LogLocator | MaxNLocator:
    """What chooses about `most` round values for the axis."""
    low, high = chart.limits
    if chart.logarithmic and high > 6 * low:  # linear steps would crowd at the upper end
        return LogLocator(subs=(1, 2, 5) if high < 60 * low else (1,), numticks=most)
    return MaxNLocator(max(2, most), steps=[1, 2, 2.5, 5, 10])
