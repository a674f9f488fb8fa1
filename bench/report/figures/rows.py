"""Charts of rows: bars, intervals and marks along a common axis, in groups, and how they are drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator

from bench.report.content.quantities import Ratio
from bench.report.figures.sheet import (
    LINE,
    MARGIN,
    REPORT_WIDTH,
    Sheet,
    find_ticks,
    fitted,
    halo,
    inches,
    widest,
    wrapped,
)
from bench.report.figures.style import POINTS, SMALL, Look, Theme, rimmed
from bench.report.words.formatting import one_line
from bench.statistics.intervals import Speedup

REACH = 1.5  # an interval that ends so many times beyond every value is cut there
MOST_FOR_NAMES = 0.36  # the largest share of the width for names left of the axis; longer ones are cut
SHORT = 16  # letters of a reason that always has room, as `out of memory` has
BETWEEN = 0.08  # inches between two groups


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
    mark: Mapping[str, Any]  # as `Axes.plot` draws it, with zorder 7 unless it says otherwise
    down: Sequence[float] | npt.NDArray[np.float64] | float = 0  # below the row's middle, in heights of a row


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row."""

    name: str = ""  # left of the axis
    bars: Sequence[Bar] = ()
    interval: tuple[float, float] | None = None  # both ends of a whisker
    marks: Sequence[Marks] = ()
    beside: str = ""  # lines right of the axis
    reason: str = ""  # why there is no bar: a status, or what forbids it


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows that belong together, at least one."""

    rows: Sequence[Row]
    section: str = ""  # what this group and its neighbours are, such as `decoders`
    heading: str = ""  # above the rows
    name: str = ""  # left of all rows
    detail: str = ""  # below the name
    best: float | None = None  # where a line crosses all rows


@dataclass(frozen=True, kw_only=True)
class RowChart:
    """A whole chart."""

    title: str
    # groups above an axis of their own, such as those of one machine, by heading; all axes are the same
    panels: Mapping[str, Sequence[RowGroup]]
    limits: tuple[float, float]  # of the axis
    label: str  # of the axis, with its unit; without one the axis is not drawn
    logarithmic: bool = False
    subtitle: str = ""
    caption: str = ""  # how to read it: for a page, or a paper's own; not in the picture
    legend: Sequence[Artist] = ()
    line: float | None = None  # where a line stands, such as that of the reference at 1
    row: float = 0.2  # inches from one row to the next
    bar: float = 0.15  # inches of a bar


def ratio_limits(values: Sequence[float], ends: Sequence[float] = ()) -> tuple[float, float]:
    """An axis that shows 1, all values, and intervals, whose ends may be 0 or infinite, up to `REACH`."""
    low, high = min([0.95, *values]), max([1.05, *values])
    low = min([low, *(max(end, low / REACH) for end in ends)])
    high = max([high, *(min(end, high * REACH) for end in ends)])
    room = (high / low) ** 0.04
    return low / room, high * room


def ends_of(ratio: Ratio | Speedup) -> tuple[float, float] | None:
    """Both ends of the interval of a ratio, if it has one."""
    return None if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)


def stacked(lengths: Mapping[str, float], looks: Mapping[str, Look]) -> list[Bar]:
    """Bars one behind the other, in the order of the looks."""
    bars, end = [], 0.0
    for kind, look in looks.items():
        if kind in lengths:
            start, end = end, end + lengths[kind]
            bars.append(Bar(start, end, look))
    return bars


def draw_rows(chart: RowChart, theme: Theme, width: float = REPORT_WIDTH) -> Figure:
    """Draw the chart, so many inches wide; the height follows from its rows."""
    sheet = Sheet(width, theme)
    sheet.title(chart.title, chart.subtitle)
    sheet.legend(chart.legend)
    drawing = _Drawing(sheet, chart)
    for heading, groups in chart.panels.items():
        sheet.caption(heading)
        drawing.draw_panel(groups)
    drawing.write_label()
    return sheet.finish()


class _Drawing:
    """A chart on a sheet: names left of the axis, numbers right of it, all positions in inches."""

    def __init__(self, sheet: Sheet, chart: RowChart) -> None:
        self.sheet, self.chart = sheet, chart
        groups = [group for groups in chart.panels.values() for group in groups]
        rows = [row for group in groups for row in group.rows]
        small = [*(group.detail for group in groups), *(row.name for row in rows)]
        names = [inches(one_line(group.name), POINTS) for group in groups]
        self._names = min(max(widest(map(one_line, small)), *names), MOST_FOR_NAMES * sheet.width)
        self._left = MARGIN + self._names + 0.07
        numbers = "\n".join(row.beside for row in rows).split("\n")
        reasons = [row.reason for row in rows if len(row.reason) <= SHORT]
        self._right = sheet.width - MARGIN - widest([*numbers, *reasons]) - 0.08

    def _place(self, value: float) -> float:
        """Inches from the left; what lies beyond an end of the axis is put there."""
        scale = math.log if self.chart.logarithmic else float
        low, high = self.chart.limits
        value = min(max(value, low), high)
        share = (scale(value) - scale(low)) / (scale(high) - scale(low))
        return self._left + share * (self._right - self._left)

    def draw_panel(self, groups: Sequence[RowGroup]) -> None:
        """Draw the groups above an axis; its own vertical coordinates are those of the sheet."""
        sheet, chart = self.sheet, self.chart
        top, wide = sheet.y, self._right - self._left
        axes = sheet.axes(self._left, top, wide, 1)
        axes.set(xscale="log" if chart.logarithmic else "linear", xlim=chart.limits)
        section = ""
        for group in groups:
            if group.section != section:
                section = group.section
                sheet.paragraph(section, above=0.02, weight="bold", color=sheet.theme.faint)
            self._draw_group(axes, group)
        axes.yaxis.set_visible(False)
        axes.xaxis.set_visible(bool(chart.label))
        axes.spines["bottom"].set_visible(bool(chart.label))
        if chart.label:
            axes.grid(axis="x", color=sheet.theme.grid, linewidth=0.5)
        apart = 0.2 + widest(f"{end:.2g}0" for end in chart.limits)
        ticks = find_ticks(*chart.limits, int(wide / apart), logarithmic=chart.logarithmic)
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda tick, _: f"{tick:,g}")
        axes.set_ylim(sheet.y, top)
        sheet.place(axes, high=sheet.y - top)
        sheet.y += LINE + 0.04 if chart.label else 0

    def write_label(self) -> None:
        """Below the middle of the axis, as far as the sheet has room there."""
        sheet = self.sheet
        lines = wrapped(self.chart.label, SMALL, sheet.room)
        half = widest(lines) / 2
        middle = min(max((self._left + self._right) / 2, MARGIN + half), sheet.width - MARGIN - half)
        for line in lines:
            sheet.text(middle, sheet.y + LINE / 2, line, ha="center")
            sheet.y += LINE

    def _draw_group(self, axes: Axes, group: RowGroup) -> None:
        sheet, pitch = self.sheet, self.chart.row
        sheet.y += BETWEEN / 2
        sheet.paragraph(group.heading, points=POINTS, weight="bold")
        sheet.y += 0.02 if group.heading else 0
        name = [(line, POINTS, sheet.theme.ink) for line in wrapped(group.name[:200], POINTS, self._names)]
        name += [(line, SMALL, sheet.theme.faint) for line in wrapped(group.detail[:200], SMALL, self._names)]
        high = max(len(group.rows) * pitch, len(name) * LINE)
        middle, first = sheet.y + high / 2, sheet.y + (high - (len(name) - 1) * LINE) / 2
        for number, (words, points, color) in enumerate(name):
            place = first + number * LINE
            sheet.text(self._left - 0.07, place, words, ha="right", fontsize=points, color=color)
        top = middle - len(group.rows) * pitch / 2
        for number, row in enumerate(group.rows):
            self._draw_row(axes, row, group, top + (number + 0.5) * pitch)
        if group.best is not None:
            ends = (top, top + len(group.rows) * pitch)
            rim = halo(sheet.theme, 3)
            axes.plot(
                [group.best] * 2, ends, linewidth=1.6, color=sheet.theme.best, path_effects=rim, zorder=5
            )
        if self.chart.line is not None:
            ends = (sheet.y - BETWEEN / 2, sheet.y + high + BETWEEN / 2)
            axes.plot([self.chart.line] * 2, ends, color=sheet.theme.ink, linewidth=0.9, zorder=3)
        sheet.y += high + BETWEEN / 2

    def _draw_row(self, axes: Axes, row: Row, group: RowGroup, y: float) -> None:
        sheet, chart, theme = self.sheet, self.chart, self.sheet.theme
        sheet.text(self._left - 0.07, y, fitted(row.name, self._names), ha="right")
        for bar in row.bars:
            start, end = np.clip((bar.start, bar.end), *chart.limits)
            look: dict[str, Any] = {"zorder": 2, "clip_on": False, **rimmed(bar.look)}
            axes.add_artist(Rectangle((start, y - chart.bar / 2), end - start, chart.bar, **look))
            for beyond, inwards in ((min(bar.start, bar.end), 0.12), (max(bar.start, bar.end), -0.12)):
                if beyond != np.clip(beyond, *chart.limits):  # two gaps: it goes on there
                    gap = {"ha": "center", "weight": "bold", "fontsize": POINTS + 2}
                    sheet.text(self._place(beyond) + inwards, y, "//", color=theme.ground, **gap)
        if row.interval:
            self._draw_interval(axes, row.interval, y)
        for marks in row.marks:
            places = y + np.multiply(marks.down, chart.row) + np.zeros(len(marks.values))
            look = {"linestyle": "none", "zorder": 7, "clip_on": False, **marks.mark}
            axes.plot(np.clip(marks.values, *chart.limits), places, **look)
        if row.reason:
            self._write_reason(row, group.best, y)
        lines = row.beside.split("\n")
        for number, words in enumerate(lines):
            sheet.text(sheet.width - MARGIN, y + (number - (len(lines) - 1) / 2) * LINE, words, ha="right")

    def _draw_interval(self, axes: Axes, interval: tuple[float, float], y: float) -> None:
        """A whisker; an end that lies beyond the axis is an arrow."""
        ends, theme = np.clip(interval, *self.chart.limits), self.sheet.theme
        if ends[0] == ends[1] != interval[0]:
            return  # all of it lies beyond
        look: dict[str, Any] = {"color": theme.ink, "zorder": 6, "clip_on": False}
        axes.plot(ends, [y, y], linewidth=0.8, solid_capstyle="butt", path_effects=halo(theme, 2), **look)
        for end, drawn, beyond in zip(interval, ends, "<>", strict=True):
            cap: dict[str, Any] = {"marker": "|", "markersize": 34 * self.chart.bar, "markeredgewidth": 0.8}
            axes.plot(drawn, y, **look, **(cap if end == drawn else {"marker": beyond, "markersize": 2.6}))

    def _write_reason(self, row: Row, best: float | None, y: float) -> None:
        """Why there is no bar: in the place of the number, or else of the bar; beside all marks."""
        sheet = self.sheet
        places = [self._place(float(value)) for marks in row.marks for value in marks.values]
        places += [] if best is None else [self._place(best)]
        start, end = max(places, default=self._left), sheet.width - MARGIN
        if row.beside:
            start, end = self._left, min(places, default=self._right) - 0.06
        words = fitted(row.reason, end - start - 0.06)
        sheet.text(end, y, words, ha="right", color=sheet.theme.status, style="italic")
