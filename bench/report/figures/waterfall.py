"""Waterfall charts: how the parts of a ratio multiply to the whole, on a logarithmic axis."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from bench.analysis.attribution.settings import Fairness
from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.row_chart import draw_rows
from bench.report.figures.rows import Bar, Panel, Row, RowChart, RowGroup, ends_of, ratio_axis
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES, ratio_and_interval
from bench.statistics.intervals import Speedup

NAMES = {"blas": "BLAS"}
"""How a setting is written where that is not its own name."""

LEFT_ALONE = {
    "threads": "Threads left alone: the engine takes every core, PyTorch the one that torchrun gives it.",
    "allocator": "Allocator left alone: glibc's defaults.",
    "blas": "BLAS left alone: PyTorch's matrix products (MKL) take the path for CPUs not made by Intel.",
}
"""What it means to leave a setting alone."""


@dataclass(frozen=True)
class Step:
    """One bar from `start` to `end`, both ratios; `whole` ones begin at 1."""

    name: str
    start: float
    end: float
    effect: Speedup
    detail: str = ""  # below the name
    range: str = ""  # below the effect
    whole: bool = False

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the bar's end, given where it starts."""
        ends, scale = ends_of(self.effect), self.end / self.effect.ratio
        return (ends[0] * scale, ends[1] * scale) if ends else None


def draw_attribution(one: ReportedComparison, theme: Theme) -> Figure:
    """From the reference to the backend that changes most: what each choice contributes.

    Raises:
        ValueError: the comparison cannot be divided.
    """
    divided = one.attribution
    if divided is None:
        raise ValueError(f"{one.stem} has no attribution")
    steps, level = [], 1.0
    for part in divided.parts:
        start, level = level, level * part.effect.ratio
        orders = f"in single orders {part.lowest:.3f} to {part.highest:.3f}"
        steps.append(Step(part.factor, start, level, part.effect, part.change, orders))
    steps.append(Step(divided.end, 1, divided.total.ratio, divided.total, whole=True))
    return _draw(
        steps,
        theme,
        title=f"From {divided.start} to {divided.end}: what made the difference",
        subtitle=f"{one.model}: {one.workload}; {one.panel}",
        label=f"throughput relative to {divided.start} ({TIMES}, logarithmic)",
        caption="Each choice's effect is its mean over all orders of changing one at a time (Shapley value); "
        "to the right its range over single orders. The parts multiply to the whole. Whiskers: 95 % "
        "interval.",
    )


def draw_fairness(label: str, divided: Fairness, theme: Theme) -> Figure:
    """From what an uncontrolled harness prints down to the backend's own part."""
    level = divided.naive.ratio
    steps = [Step("nothing held", 1, level, divided.naive, whole=True)]
    for part in divided.parts:
        start, level = level, level / part.effect.ratio
        steps.append(Step(f"of that: {NAMES.get(part.factor, part.factor)}", start, level, part.effect))
    steps.append(Step(f"{divided.backend}'s own", 1, divided.own.ratio, divided.own, whole=True))
    orders = "both" if len(divided.parts) == 2 else "all"
    return _draw(
        steps,
        theme,
        title=f"{divided.backend} over {divided.reference}: what an uncontrolled harness would print",
        subtitle=label,
        label=f"apparent speed-up over {divided.reference} ({TIMES}, logarithmic)",
        caption=" ".join(LEFT_ALONE[part.factor] for part in divided.parts)
        + f" Each part is its mean over {orders} orders; whiskers: 95 % interval.",
    )


def _draw(
    steps: Sequence[Step], theme: Theme, *, title: str, subtitle: str, label: str, caption: str
) -> Figure:
    ends = [end for step in steps for end in step.interval or ()]
    groups = [
        RowGroup(name=step.name, detail=step.detail, rows=[_row(step, is_last=step is steps[-1])])
        for step in steps
    ]
    chart = RowChart(
        title=title,
        subtitle=subtitle,
        panels=[Panel(groups=groups)],
        axis=ratio_axis([value for step in steps for value in (step.start, step.end)], ends),
        label=label,
        caption=caption,
        line=1,
        row=0.34,
        bar=0.24,
    )
    return draw_rows(chart, theme)


def _row(step: Step, *, is_last: bool) -> Row:
    effect = ratio_and_interval(step.effect)
    look = style.step_look(whole=step.whole, grows=step.end >= step.start)
    return Row(
        bars=[Bar(step.start, step.end, look)],
        interval=step.interval,
        link=None if is_last else step.end,
        beside=f"{effect}\n{step.range}" if step.range else effect,
    )
