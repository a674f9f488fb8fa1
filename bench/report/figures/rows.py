"""What a chart of rows shows: panels of groups of rows, without drawing them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.report.content.quantities import Ratio
from bench.report.figures.axis import Axis
from bench.report.figures.sheet import Mark, Swatch
from bench.report.figures.style import Look
from bench.statistics.intervals import Speedup

Floats = npt.NDArray[np.float64]


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
