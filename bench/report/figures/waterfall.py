"""The figure of what an uncontrolled harness would print, part by part, on a logarithmic axis."""

from bench.analysis.attribution import Fairness
from bench.report.figures.rows import Bar, Row, RowChart, RowGroup, ends_of, ratio_limits
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


def fairness_chart(label: str, divided: Fairness, _: Theme) -> RowChart:
    """A waterfall from what an uncontrolled harness prints down to the backend's own part."""
    level = divided.naive.ratio
    rows = {"nothing held": _row(1, level, divided.naive, is_whole=True)}
    for part in divided.parts:
        start, level = level, level / part.effect.ratio
        name = "BLAS" if part.factor == "blas" else part.factor
        rows[f"of that: {name}"] = _row(start, level, part.effect)
    rows[f"{divided.backend}'s own"] = _row(1, divided.own.ratio, divided.own, is_whole=True)
    values = [value for row in rows.values() for bar in row.bars for value in (bar.start, bar.end)]
    orders = "both" if len(divided.parts) == 2 else "all"
    return RowChart(
        title=f"{divided.backend} over {divided.reference}: what an uncontrolled harness would print",
        subtitle=label,
        panels={"": [RowGroup(name=name, rows=[row]) for name, row in rows.items()]},
        limits=ratio_limits(values, [end for row in rows.values() for end in row.interval or ()]),
        logarithmic=True,
        label=f"apparent speed-up over {divided.reference} ({TIMES}, logarithmic)",
        caption=" ".join(LEFT_ALONE[part.factor] for part in divided.parts)
        + f" Each part is its mean over {orders} orders; whiskers: 95 % interval.",
        line=1,
        row=0.34,
        bar=0.24,
    )


def _row(start: float, end: float, effect: Speedup, *, is_whole: bool = False) -> Row:
    """A bar between two ratios; its interval is that of the effect, put at its end."""
    ends, scale = ends_of(effect), end / effect.ratio
    return Row(
        bars=[Bar(start, end, WHOLE if is_whole else GROWS if end >= start else SHRINKS)],
        interval=(ends[0] * scale, ends[1] * scale) if ends else None,
        beside=ratio_and_interval(effect),
    )
