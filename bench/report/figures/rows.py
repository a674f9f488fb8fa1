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


@dataclass(frozen=True, kw_only=True)
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
            bars.append(Bar(start=start, end=end, look=look))
    return bars


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Markers of one kind in a row.

    Attributes:
        values: along the axis.
        mark: how they look; their order is 7 unless it says otherwise.
        down: how far below the row's middle each is, in heights of a row; 0 for all if empty.
    """

    values: Sequence[float] | Floats
    mark: Mark
    down: Sequence[float] | Floats = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row.

    Attributes:
        name: left of the axis.
        bars: in any order.
        interval: both ends of a whisker.
        marks: anything that is drawn as markers.
        rules: where short vertical lines stand.
        link: where a line leads to the middle of the next row.
        beside: words right of the axis, in lines.
        reason: why there is no bar: a status, or what forbids the number.
    """

    name: str = ""
    bars: Sequence[Bar] = ()
    interval: tuple[float, float] | None = None
    marks: Sequence[Marks] = ()
    rules: Sequence[float] = ()
    link: float | None = None
    beside: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows that belong together.

    Attributes:
        rows: at least one.
        heading: above them.
        name: left of them all.
        detail: below the name.
        section: what this group and its neighbours are, such as `decoders`.
        best: where a line crosses all rows.
    """

    rows: Sequence[Row]
    heading: str = ""
    name: str = ""
    detail: str = ""
    section: str = ""
    best: float | None = None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Groups above an axis of their own, such as those of one machine."""

    groups: Sequence[RowGroup]
    heading: str = ""


@dataclass(frozen=True, kw_only=True)
class RowChart:
    """A whole chart.

    Attributes:
        title: may be empty, as may be subtitle and caption.
        panels: at least one; all have the same axis.
        axis: its ends.
        label: of the axis, with its unit; without one the axis is not drawn.
        unit: behind every tick.
        less, more: what values below and above the line mean.
        line: where a line stands, such as that of the reference at 1.
        band: what is shaded.
        with_grid: whether ticks have lines.
        row: inches from one row to the next, before scaling.
        bar: inches of a bar, likewise.
        between: inches between two groups, likewise.
    """

    title: str
    panels: Sequence[Panel]
    axis: Axis
    label: str
    subtitle: str = ""
    caption: str = ""
    legend: Sequence[Swatch] = ()
    unit: str = ""
    less: str = ""
    more: str = ""
    line: float | None = None
    band: tuple[float, float] | None = None
    with_grid: bool = True
    row: float = 0.2
    bar: float = 0.15
    between: float = 0.07

    @property
    def groups(self) -> list[RowGroup]:
        """The groups of all panels."""
        return [group for panel in self.panels for group in panel.groups]
