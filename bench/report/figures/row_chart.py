"""Draws charts of rows: bars, intervals and marks along a common axis, in groups.

Every column is as wide as its texts, so that nothing overlaps at any width of the sheet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench.report.figures.measured_text import fits, fitted, inches, line_inches, wrapped
from bench.report.figures.rows import Panel, Row, RowChart, RowGroup
from bench.report.figures.sheet import MARGIN, REPORT_WIDTH, WIDE, Sheet
from bench.report.figures.style import Theme
from bench.report.words.formatting import one_line

MOST_FOR_NAMES = 0.36
"""The largest share of the width for names left of the axis; longer ones are cut."""

MOST_LINES = 2
"""Lines of detail below a name; the text alternative has all."""

MOST_TRIALS = 12
"""Times that the axis is made longer so that a reason has room behind all marks."""

FREE = 0.05
"""Inches free around a mark, before scaling."""


def draw_rows(chart: RowChart, theme: Theme, width: float = REPORT_WIDTH) -> Figure:
    """Draw the chart, so many inches wide; the height follows from its rows."""
    sheet = Sheet(width, theme)
    sheet.title(chart.title, chart.subtitle)
    sheet.legend(chart.legend)
    layout = _Layout(sheet, chart)
    for panel in chart.panels:
        sheet.caption(panel.heading)
        sheet.y += 0.03
        layout.draw_panel(panel)
    layout.draw_label()
    sheet.caption(chart.caption)
    return sheet.finish()


@dataclass
class _Layout:
    """Where the columns of a chart are, in inches: sections, names, axis, numbers."""

    sheet: Sheet
    chart: RowChart

    def __post_init__(self) -> None:
        sheet, groups = self.sheet, self.chart.groups
        rows = [row for group in groups for row in group.rows]
        names = [inches(one_line(group.name), sheet.points) for group in groups]
        small = [*(group.detail for group in groups), *(row.name for row in rows)]
        names += [inches(one_line(words), sheet.small) for words in small]
        self.names = min(max(names, default=0), MOST_FOR_NAMES * sheet.width)
        sections = [inches(group.section, sheet.small, "bold") for group in groups if group.section]
        self.beside_sections = bool(sections) and sheet.width >= WIDE
        self.end = MARGIN + self.names + (max(sections) + 0.12 if self.beside_sections else 0)
        self.left = self.end + 0.07
        numbers = [inches(line, sheet.small) for row in rows for line in row.beside.split("\n")]
        self.right = sheet.width - MARGIN - max(numbers, default=0) - 0.06
        self.axis = self.chart.axis
        self._make_room_for_reasons()

    def _make_room_for_reasons(self) -> None:
        """Extend the axis until every short reason has a place; a long one is cut instead."""
        short = 0.5 * (self.right - self.left)
        groups = self.chart.groups
        rows = [(group, row) for group in groups for row in group.rows if row.reason]
        rows = [(group, row) for group, row in rows if fits(row.reason, self.sheet.small, short)]
        for _ in range(MOST_TRIALS):
            if all(self._free_start(row.reason, self._taken(group, row)) for group, row in rows):
                return
            self.axis = replace(self.axis, high=self.axis.high * 1.05)

    def _place(self, value: float) -> float:
        return self.left + self.axis.share(value) * (self.right - self.left)

    @cached_property
    def _ticks(self) -> dict[float, str]:
        """The places of the ticks, and their words."""
        sheet, chart = self.sheet, self.chart
        if not chart.label:
            return {}
        words = "0.25" if self.axis.logarithmic else f"{self.axis.high:,.0f}.5"
        room = self.right - self.left
        ticks = self.axis.ticks(1.5 * inches(words + chart.unit, sheet.small) / room)
        return {tick: f"{tick:,g}{chart.unit}" for tick in ticks}

    def draw_panel(self, panel: Panel) -> None:
        """Draw the groups, and the ticks below them."""
        sheet, chart = self.sheet, self.chart
        top, section = sheet.y, ""
        for group in panel.groups:
            if group.section != section:
                section = group.section
                self._draw_section(section, is_first=sheet.y == top)
            self._draw_group(group)
        for tick in self._ticks if chart.with_grid else ():
            place = self._place(tick)
            sheet.line((place, place), (top, sheet.y), width=0.5, color=sheet.theme.grid, zorder=0)
        if chart.band:
            left, right = map(self._place, chart.band)
            sheet.shade(left, right, top, sheet.y)
        if chart.label:
            color = sheet.theme.faint
            sheet.line((self.left, self.right), (sheet.y, sheet.y), width=0.6, color=color)
            for tick, words in self._ticks.items():
                down = sheet.y + 0.02 + line_inches(sheet.small) / 2
                sheet.text(self._place(tick), down, words, ha="center")
            sheet.y += 0.02 + line_inches(sheet.small)

    def _draw_section(self, section: str, *, is_first: bool) -> None:
        sheet = self.sheet
        look: dict[str, Any] = {"weight": "bold", "color": sheet.theme.faint}
        if not self.beside_sections:
            sheet.paragraph(section, above=0.02, with_halo=True, zorder=4, **look)
            return
        if not is_first:
            ends = (MARGIN, self.right)
            sheet.line(ends, (sheet.y, sheet.y), width=0.4, color=sheet.theme.grid, zorder=0)
        down = sheet.y + (self.chart.between / 2 + self.chart.bar) * sheet.scale
        sheet.text(MARGIN, down, section, **look)

    def _draw_group(self, group: RowGroup) -> None:
        sheet = self.sheet
        row, between = self.chart.row * sheet.scale, self.chart.between * sheet.scale
        line_top = sheet.y
        sheet.y += between / 2
        if group.heading:
            bold: dict[str, Any] = {"weight": "bold", "with_halo": True, "zorder": 4}
            sheet.paragraph(group.heading, points=sheet.points, **bold)
            sheet.y += 0.02 * sheet.scale
            line_top = sheet.y
        detail = self._detail_lines(group.detail)
        named = line_inches(sheet.points) + len(detail) * line_inches(sheet.small) if group.name else 0.0
        high = max(len(group.rows) * row, named)
        if group.name:
            name = fitted(group.name, sheet.points, self.names)
            below = sheet.lines(
                self.end, sheet.y + (high - named) / 2, [name], points=sheet.points, ha="right"
            )
            sheet.lines(self.end, below, detail, points=sheet.small, ha="right", color=sheet.theme.faint)
        top = sheet.y + (high - len(group.rows) * row) / 2
        for number, one in enumerate(group.rows):
            self._draw_row(group, one, top + (number + 0.5) * row)
        if group.best is not None:
            place, bar = self._place(group.best), self.chart.bar * sheet.scale
            beyond = 0.2 * bar - (row - bar) / 2  # a little beyond the bars, not into the heading
            ends = (top - beyond, top + len(group.rows) * row + beyond)
            halo = sheet.halo(1.6 * sheet.scale + 1.4)
            sheet.line((place, place), ends, width=1.6, color=sheet.theme.best, path_effects=halo, zorder=5)
        sheet.y += high + between / 2
        if self.chart.line is not None:
            place = self._place(self.chart.line)
            sheet.line((place, place), (line_top, sheet.y), width=0.9, zorder=3)

    def _detail_lines(self, detail: str) -> list[str]:
        lines = wrapped(detail, self.sheet.small, self.names)
        if len(lines) > MOST_LINES:
            kept = lines[: MOST_LINES - 1]
            rest = one_line(detail)[len(" ".join(kept)) :].strip()
            lines = [*kept, fitted(rest, self.sheet.small, self.names)]
        return lines

    def _draw_row(self, group: RowGroup, row: Row, y: float) -> None:
        sheet, pitch = self.sheet, self.chart.row * self.sheet.scale
        sheet.text(self.end, y, fitted(row.name, sheet.small, self.names), ha="right")
        for bar in row.bars:
            ends = self._place(bar.start), self._place(bar.end)
            sheet.bar(*ends, y, self.chart.bar * sheet.scale, bar.look)
        if row.interval:
            self._draw_interval(*row.interval, y)
        for marks in row.marks:
            shifts = marks.down if len(marks.down) else np.zeros(len(marks.values))
            places = [self._place(float(value)) for value in marks.values]
            sheet.marks(places, [y + float(shift) * pitch for shift in shifts], {"zorder": 7, **marks.mark})
        for rule in row.rules:
            place, half = self._place(rule), 0.45 * pitch
            sheet.line((place, place), (y - half, y + half), width=0.6, color=sheet.theme.grid, zorder=1)
        if row.link is not None:
            place = self._place(row.link)
            next_row = y + pitch + self.chart.between * sheet.scale
            sheet.line((place, place), (y, next_row), width=0.6, color=sheet.theme.faint, zorder=1)
        if row.reason:
            self._draw_reason(row.reason, self._taken(group, row), y)
        lines = row.beside.split("\n")
        for number, words in enumerate(lines):
            down = y + (number - (len(lines) - 1) / 2) * line_inches(sheet.small)
            sheet.text(sheet.width - MARGIN, down, words, ha="right")

    def _draw_interval(self, low: float, high: float, y: float) -> None:
        sheet, cap = self.sheet, 0.28 * self.chart.bar * self.sheet.scale
        halo = {"zorder": 6, "path_effects": sheet.halo(2.0 * sheet.scale)}
        sheet.interval(self._place(low), self._place(high), y, cap, **halo)
        for end, beyond in ((low, "<"), (high, ">")):
            if self.axis.clipped(end) != end:  # it goes on beyond the axis
                arrow = {"marker": beyond, "markersize": 2.6, "color": sheet.theme.ink, "zorder": 6}
                sheet.marks([self._place(end)], [y], arrow)

    def _taken(self, group: RowGroup, row: Row) -> list[float]:
        """Where marks are in a row without a bar: inches, in order, with the foot of bars."""
        values = [float(value) for marks in row.marks for value in marks.values]
        values += [] if group.best is None else [group.best]
        return sorted([self._foot, *map(self._place, values)])

    @property
    def _foot(self) -> float:
        """Where bars begin: at the line of a chart of ratios, or else left."""
        line = self.chart.line
        return self._place(line) if line is not None and self.axis.logarithmic else self.left

    def _free_start(self, words: str, taken: Sequence[float]) -> float | None:
        """Where words begin that cover no mark: behind one, best the foot, or else before one."""
        around = FREE * self.sheet.scale
        if not fits(words, self.sheet.small, self.sheet.width):
            return None
        wide = inches(words, self.sheet.small)
        behind = sorted((place + around for place in taken), key=lambda start: (start < self._foot, start))
        before = sorted((place - around - wide for place in taken), reverse=True)
        for start in (*behind, *before):
            inside = self.left <= start and start + wide <= self.sheet.width - MARGIN
            ends = start - 0.99 * around, start + wide + 0.99 * around
            if inside and all(not ends[0] < place < ends[1] for place in taken):
                return start
        return None

    def _draw_reason(self, reason: str, taken: Sequence[float], y: float) -> None:
        """Why there is no bar, where nothing else is in the row."""
        sheet = self.sheet
        start = self._free_start(reason, taken)
        if start is None:  # too long for any place: what fits behind the last mark
            start = taken[-1] + FREE * sheet.scale
        words = fitted(reason, sheet.small, sheet.width - MARGIN - start)
        look: dict[str, Any] = {"color": sheet.theme.status, "style": "italic", "zorder": 8}
        sheet.text(start, y, words, with_halo=True, **look)

    def draw_label(self) -> None:
        """Which way is better, and the axis' label, as far as the sheet has room there."""
        sheet, chart = self.sheet, self.chart
        if chart.line is not None and (chart.less or chart.more):
            line, down = self._place(chart.line), sheet.y + line_inches(sheet.small) / 2
            for words, room, place, ha in (
                (f"← {chart.less}", line - MARGIN, line - 0.06, "right"),
                (f"{chart.more} →", sheet.width - line, line + 0.06, "left"),
            ):
                if fits(words, sheet.small, room - 0.06):
                    sheet.text(place, down, words, ha=ha, weight="bold")
            sheet.y += line_inches(sheet.small)
        if chart.label:
            lines = wrapped(chart.label, sheet.small, sheet.room)
            half = max(inches(line, sheet.small) for line in lines) / 2
            middle = min(max((self.left + self.right) / 2, MARGIN + half), sheet.width - MARGIN - half)
            sheet.y = sheet.lines(middle, sheet.y, lines, points=sheet.small, ha="center")
