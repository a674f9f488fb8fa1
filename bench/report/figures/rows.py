"""What a chart of rows shows, without drawing it: an axis with its ticks, panels of groups of rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import MaxNLocator

from bench.report.content.quantities import Ratio
from bench.report.figures.sheet import Mark, Swatch
from bench.report.figures.style import Look
from bench.statistics.intervals import Speedup

Floats = npt.NDArray[np.float64]

_RATIOS = (
    *(1, 10, 0.1, 100, 0.01, 2, 0.5, 5, 0.2, 1.5, 0.7, 1.25, 0.8, 3, 0.3, 4, 0.4, 1.1, 0.9, 0.6, 1.75, 7),
    *(1.2, 1.3, 1.4, 0.85, 0.95, 1.05, 1.15, 0.75, 2.5, 6, 8, 20, 50, 200, 500, 1000, 0.05, 0.02, 0.001),
)
"""The earlier, the sooner a ratio gets a tick."""

REACH = 1.5
"""An interval that ends so many times beyond every value is cut there."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """From `low` to `high`: of ratios and logarithmic, or linear."""

    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1; what lies beyond an end is put there."""
        value = self.clipped(value)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def clipped(self, value: float) -> float:
        """The value, or the end that it lies beyond."""
        return min(max(value, self.low), self.high)

    def ticks(self, apart: float) -> list[float]:
        """Round values at least such a share of the axis apart; of ratios 1 is among them."""
        if not self.logarithmic:
            locator = MaxNLocator(max(1, min(9, int(1 / apart))), steps=[1, 2, 2.5, 5, 10])
            ticks = locator.tick_values(self.low, self.high)
            return [float(tick) for tick in ticks if self.low <= tick <= self.high]
        chosen: list[float] = []
        for tick in _RATIOS:
            inside = self.low <= tick <= self.high
            if inside and all(abs(self.share(tick) - self.share(other)) >= apart for other in chosen):
                chosen.append(tick)
        return sorted(chosen)


def ratio_axis(values: Sequence[float], ends: Sequence[float] = ()) -> Axis:
    """The axis that shows 1, all values, and intervals, whose ends may be 0 or infinite, up to `REACH`."""
    low, high = min([0.95, *values]), max([1.05, *values])
    low = min([low, *(max(end, low / REACH) for end in ends)])
    high = max([high, *(min(end, high * REACH) for end in ends)])
    room = (high / low) ** 0.04
    return Axis(low=low / room, high=high * room, logarithmic=True)


@dataclass(frozen=True)
class Bar:
    """A bar between two values."""

    start: float
    end: float
    look: Look


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


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Markers of one kind in a row."""

    values: Sequence[float] | Floats  # along the axis
    mark: Mark  # drawn with zorder 7 unless it says otherwise
    down: Sequence[float] | Floats = ()  # below the row's middle, in heights of a row; 0 for all if empty


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row."""

    name: str = ""  # left of the axis
    bars: Sequence[Bar] = ()
    interval: tuple[float, float] | None = None  # both ends of a whisker
    marks: Sequence[Marks] = ()
    rules: Sequence[float] = ()  # where short vertical lines stand
    link: float | None = None  # where a line leads to the middle of the next row
    beside: str = ""  # lines right of the axis
    reason: str = ""  # why there is no bar: a status, or what forbids the number


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows that belong together, at least one."""

    rows: Sequence[Row]
    heading: str = ""  # above them
    name: str = ""  # left of all rows
    detail: str = ""  # below the name
    section: str = ""  # what this group and its neighbours are, such as `decoders`
    best: float | None = None  # where a line crosses all rows


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Groups above an axis of their own, such as those of one machine."""

    groups: Sequence[RowGroup]
    heading: str = ""


@dataclass(frozen=True, kw_only=True)
class RowChart:
    """A whole chart; inches are before scaling."""

    title: str
    panels: Sequence[Panel]  # at least one; all have the same axis
    axis: Axis
    label: str  # of the axis, with its unit; without one the axis is not drawn
    subtitle: str = ""
    caption: str = ""
    legend: Sequence[Swatch] = ()
    unit: str = ""  # behind every tick
    less: str = ""  # what values below the line mean
    more: str = ""  # and above it
    line: float | None = None  # where a line stands, such as that of the reference at 1
    band: tuple[float, float] | None = None  # what is shaded
    with_grid: bool = True  # whether ticks have lines
    row: float = 0.2  # inches from one row to the next
    bar: float = 0.15  # inches of a bar
    between: float = 0.07  # inches between two groups

    @property
    def groups(self) -> list[RowGroup]:
        """The groups of all panels."""
        return [group for panel in self.panels for group in panel.groups]
