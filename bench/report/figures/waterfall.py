"""Waterfall charts: how the parts of a ratio multiply to the whole, on a logarithmic axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from bench.analysis.attribution.settings import Fairness
from bench.report.content.collection import ReportedComparison
from bench.report.figures import chart, style
from bench.report.figures.style import EDGE, LIGHT
from bench.report.figures.titled import titled_axes
from bench.report.words.formatting import TIMES, ratio_and_interval
from bench.statistics.intervals import Speedup

STEP = 0.5
"""Inches from one bar to the next."""

BAR = 0.3


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar from `start` to `end`, both ratios; `whole` bars begin at 1."""

    name: str
    start: float
    end: float
    effect: Speedup
    below: str = ""  # a second line under the name
    beside: str = ""
    whole: bool = False


def draw_attribution(one: ReportedComparison) -> Figure:
    """From the reference to the backend that changes most: what each choice contributes.

    Raises:
        ValueError: the comparison cannot be divided.
    """
    divided = one.attribution
    if divided is None:
        raise ValueError(f"{one.stem} has no attribution")
    bars, level = [], 1.0
    for part in divided.parts:
        end, effect = level * part.effect.ratio, ratio_and_interval(part.effect)
        beside = f"{effect}\nin single orders {part.lowest:.3f} to {part.highest:.3f}"
        bar = Bar(
            name=part.factor, below=part.change, start=level, end=end, effect=part.effect, beside=beside
        )
        bars.append(bar)
        level = end
    bars.append(Bar(name=divided.end, start=1, end=divided.total.ratio, effect=divided.total, whole=True))
    return _draw(
        f"From {divided.start} to {divided.end}: what made the difference",
        f"{one.model}: {one.workload}; {one.panel}",
        bars,
        label=f"throughput relative to {divided.start} ({TIMES}, logarithmic)",
        caption="Each choice's effect is its mean over all orders of changing one at a time (Shapley value); "
        "to the right its range over single orders. The parts multiply to the whole. Whiskers: 95 % "
        "interval.",
    )


NAMES = {"blas": "BLAS"}
"""How a setting is written where that is not its own name."""

LEFT_ALONE = {
    "threads": "Threads left alone: the engine takes every core, PyTorch the one that torchrun gives it.",
    "allocator": "Allocator left alone: glibc's defaults.",
    "blas": "BLAS left alone: PyTorch's matrix products (MKL) take the path for CPUs not made by Intel.",
}
"""What it means to leave a setting alone."""


def draw_fairness(label: str, divided: Fairness) -> Figure:
    """From what an uncontrolled harness prints down to the backend's own part."""
    level = divided.naive.ratio
    bars = [Bar(name="nothing held", start=1, end=level, effect=divided.naive, whole=True)]
    for part in divided.parts:
        after = level / part.effect.ratio
        name = f"of that: {NAMES.get(part.factor, part.factor)}"
        bars.append(Bar(name=name, start=level, end=after, effect=part.effect))
        level = after
    own = divided.own
    bars.append(Bar(name=f"{divided.backend}'s own", start=1, end=own.ratio, effect=own, whole=True))
    orders = "both" if len(divided.parts) == 2 else "all"
    return _draw(
        f"{divided.backend} over {divided.reference}: what an uncontrolled harness would print",
        label,
        bars,
        label=f"apparent speed-up over {divided.reference} ({TIMES}, logarithmic)",
        caption=" ".join(LEFT_ALONE[part.factor] for part in divided.parts)
        + f" Each part is its mean over {orders} orders; whiskers: 95 % interval.",
    )


def _draw(title: str, subtitle: str, bars: Sequence[Bar], *, label: str, caption: str) -> Figure:
    longest = max(min(chart.LONGEST_NAME, len(words)) for one in bars for words in (one.name, one.below))
    inches = STEP * len(bars)
    figure, axes = titled_axes(
        title, subtitle, caption, left=0.3 + chart.CHARACTER * longest, right=2.0, inches=inches
    )
    for number, one in enumerate(bars):
        _bar(axes, (number + 0.5) * STEP, one, last=number == len(bars) - 1)
    axes.axvline(1, color=LIGHT.ink, linewidth=1, linestyle=(0, (4, 2)), zorder=4)
    axes.set_ylim(inches, 0)
    axes.set_yticks(
        [(number + 0.5) * STEP for number in range(len(bars))],
        ["\n".join(filter(None, map(chart.shortened, (one.name, one.below)))) for one in bars],
        fontsize=8.5,
    )
    axes.set_xscale("log")
    ends = [value for one in bars for value in (one.start, one.end, *_whisker(one)) if value > 0]
    low, high = min([0.95, *ends]), max([1.05, *ends])
    axes.set_xlim(low / 1.02, high * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}"))
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=LIGHT.grid, linewidth=0.6)
    axes.set_xlabel(label)
    return figure


def _bar(axes: Axes, place: float, one: Bar, *, last: bool) -> None:
    colour, hatch = style.step_look(whole=one.whole, grows=one.end >= one.start)
    low, high = sorted((one.start, one.end))
    axes.barh(
        place, high - low, left=low, height=BAR, color=colour, hatch=hatch, edgecolor=EDGE, linewidth=0.6
    )
    if not last:  # a line leads to the bar that begins where this one ends
        axes.plot(
            [one.end, one.end],
            [place + BAR / 2, place + STEP - BAR / 2],
            color=LIGHT.faint,
            linewidth=0.8,
            zorder=3,
        )
    ends = _whisker(one)
    if ends:
        axes.plot(ends, [place, place], color=LIGHT.ink, linewidth=1.2, zorder=6, path_effects=chart.rim(2.6))
        axes.plot(ends, [place, place], "|", color=LIGHT.ink, markersize=6, zorder=6)
    words = one.beside or ratio_and_interval(one.effect)
    axes.text(1.02, place, words, transform=axes.get_yaxis_transform(), va="center_baseline", fontsize=8)


def _whisker(one: Bar) -> list[float]:
    """The interval of the bar's end, given where it starts."""
    low, high = one.effect.low, one.effect.high
    if low is None or high is None:
        return []
    around = np.array([low, high]) / one.effect.ratio * one.end
    return [float(max(around[0], 1e-3)), float(min(around[1], 1e3))]
