"""What charts and tables of many models show of a backend: a figure as a ratio over the reference's."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.report.content.collection import ReportedComparison
from bench.statistics.summary import BackendSummary


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A backend's figure over the reference's; `low` and `high` bound its 95 % interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """What a chart shows of every backend; in its texts the reference's name takes the place of `{}`."""

    title: str  # of the chart
    axis: str
    less: str  # what a ratio below 1 means
    more: str
    caption: str  # what a bar and its interval are
    # of a backend whose numbers may be shown, over the reference; None where it is not known
    ratio: Callable[[ReportedComparison, BackendSummary], Ratio | None]


def _speedup(_: ReportedComparison, summary: BackendSummary) -> Ratio | None:
    speedup = summary.speedup
    return Ratio(value=speedup.ratio, low=speedup.low, high=speedup.high) if speedup else None


def _memory(comparison: ReportedComparison, summary: BackendSummary) -> Ratio | None:
    base = comparison.base
    return _over(summary.peak_mib, base.peak_mib if base else None)


def _energy(comparison: ReportedComparison, summary: BackendSummary) -> Ratio | None:
    base = comparison.base
    return _over(summary.energy_per_sample_j, base.energy_per_sample_j if base else None)


def _over(value: float | None, base: float | None) -> Ratio | None:
    return Ratio(value=value / base) if value and base else None


SPEEDUP = Quantity(
    title="Training speed relative to {}",
    axis="speed-up over {} (×, logarithmic)",
    less="slower",
    more="faster",
    caption="Bars: samples/s over that of {}. Whiskers: 95 % interval over launches.",
    ratio=_speedup,
)
MEMORY = Quantity(
    title="Peak memory relative to {}",
    axis="peak memory over {}'s (×, logarithmic)",
    less="less memory",
    more="more memory",
    caption="Bars: peak of the timed blocks, of the GPU or else of the rank that has most, over that of {}. "
    "A peak is the highest of all blocks, so that it has no interval.",
    ratio=_memory,
)
ENERGY = Quantity(
    title="Energy per sample relative to {}",
    axis="energy per sample over {}'s (×, logarithmic)",
    less="less energy",
    more="more energy",
    caption="Bars: joules of all devices over all timed blocks, per sample, over that of {}; one sum, so "
    "that it has no interval.",
    ratio=_energy,
)

QUANTITIES = {"speedup": SPEEDUP, "memory": MEMORY, "energy": ENERGY}

BREAKDOWN = "breakdown"
KINDS = (*QUANTITIES, BREAKDOWN)  # what a figure over many models may show
