"""The figures of how the parts of a ratio multiply to the whole, on a logarithmic axis."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from bench.analysis.attribution import Fairness
from bench.report.content.collection import ReportedComparison
from bench.report.figures.rows import Bar, Row, RowChart, RowGroup, draw_rows, ends_of, ratio_limits
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES, ratio_and_interval
from bench.statistics.intervals import Speedup

WHOLE, GROWS, SHRINKS = ("#BBBBBB", ""), ("#009E73", "///"), ("#D55E00", "\\\\\\")

LEFT_ALONE = {
    "threads": "Threads left alone: the engine takes every core, PyTorch the one that torchrun gives it.",
    "allocator": "Allocator left alone: glibc's defaults.",
    "blas": "BLAS left alone: PyTorch's matrix products (MKL) take the path for CPUs not made by Intel.",
}
"""What it means to leave a setting alone."""


def draw_attribution(comparison: ReportedComparison, theme: Theme) -> Figure:
    """A waterfall from the reference to the backend that changes most: what each choice contributes."""
    divided = comparison.attribution
    assert divided is not None, "only comparisons that can be divided have this figure"
    groups, level = [], 1.0
    for part in divided.parts:
        start, level = level, level * part.effect.ratio
        orders = f"in single orders {part.lowest:.3f} to {part.highest:.3f}"
        groups.append(_group(f"{part.factor}: {part.change}", start, level, part.effect, beside=orders))
    groups.append(_group(divided.end, 1, divided.total.ratio, divided.total, is_whole=True))
    return _draw(
        groups,
        theme,
        title=f"From {divided.start} to {divided.end}: what made the difference",
        subtitle=f"{comparison.model}: {comparison.workload}; {comparison.panel}",
        label=f"throughput relative to {divided.start} ({TIMES}, logarithmic)",
        caption="Each choice's effect is its mean over all orders of changing one at a time (Shapley value); "
        "to the right its range over single orders. The parts multiply to the whole. Whiskers: 95 % "
        "interval.",
    )


def draw_fairness(label: str, divided: Fairness, theme: Theme) -> Figure:
    """A waterfall from what an uncontrolled harness prints down to the backend's own part."""
    level = divided.naive.ratio
    groups = [_group("nothing held", 1, level, divided.naive, is_whole=True)]
    for part in divided.parts:
        start, level = level, level / part.effect.ratio
        name = "BLAS" if part.factor == "blas" else part.factor
        groups.append(_group(f"of that: {name}", start, level, part.effect))
    groups.append(_group(f"{divided.backend}'s own", 1, divided.own.ratio, divided.own, is_whole=True))
    orders = "both" if len(divided.parts) == 2 else "all"
    return _draw(
        groups,
        theme,
        title=f"{divided.backend} over {divided.reference}: what an uncontrolled harness would print",
        subtitle=label,
        label=f"apparent speed-up over {divided.reference} ({TIMES}, logarithmic)",
        caption=" ".join(LEFT_ALONE[part.factor] for part in divided.parts)
        + f" Each part is its mean over {orders} orders; whiskers: 95 % interval.",
    )


def _group(
    name: str, start: float, end: float, effect: Speedup, *, beside: str = "", is_whole: bool = False
) -> RowGroup:
    """A bar between two ratios; its interval is that of the effect, put at its end."""
    ends, scale = ends_of(effect), end / effect.ratio
    row = Row(
        bars=[Bar(start, end, WHOLE if is_whole else GROWS if end >= start else SHRINKS)],
        interval=(ends[0] * scale, ends[1] * scale) if ends else None,
        beside="\n".join(filter(None, (ratio_and_interval(effect), beside))),
    )
    return RowGroup(name=name, rows=[row])


def _draw(
    groups: Sequence[RowGroup], theme: Theme, *, title: str, subtitle: str, label: str, caption: str
) -> Figure:
    rows = [row for group in groups for row in group.rows]
    values = [value for row in rows for bar in row.bars for value in (bar.start, bar.end)]
    chart = RowChart(
        title=title,
        subtitle=subtitle,
        panels={"": groups},
        limits=ratio_limits(values, [end for row in rows for end in row.interval or ()]),
        logarithmic=True,
        label=label,
        caption=caption,
        line=1,
        row=0.34,
        bar=0.24,
    )
    return draw_rows(chart, theme)
