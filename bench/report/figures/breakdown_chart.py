"""The chart of where the time of many models goes: for each a stack of every backend's step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.analysis.breakdown import Breakdown
from bench.errors import UserError
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import milliseconds
from bench.report.figures import style
from bench.report.figures.model_chart import ModelChart, ModelLine, machine_and_workload, model_chart
from bench.report.figures.rows import Marks, Row, RowChart, RowGroup, stacked
from bench.report.figures.sheet import bar_entry, mark_entry
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES, enumerated, one_line, share

REMAINDER = "not in the profile"  # what a timed step takes beyond the profiled one
TOO_FAR = "profile too far from the timed step"  # why a step has no bar


@dataclass(frozen=True)
class StepBar:
    """One backend's step, over the reference's timed step."""

    backend: str
    parts: Mapping[str, float]  # kinds of work, in their order; none if the profile is `TOO_FAR`
    timed: float | None  # None if it was not timed
    timed_s: float | None  # the same in seconds


def breakdown_chart(comparisons: Sequence[ReportedComparison], *, backends: Sequence[str] = ()) -> ModelChart:
    """The chart of the comparisons whose reference was profiled and timed.

    It has the steps of these backends, beside those of the reference and of the best PyTorch.

    Raises:
        UserError: there is no such comparison, or a backend is in none of them.
    """
    profiled = [comparison for comparison in comparisons if base_seconds(comparison)]
    if not profiled:
        raise UserError(
            "none of these comparisons says where its time goes",
            "measure with measure.explain=true, and keep their *.breakdown.csv beside the files",
        )
    chart = model_chart(profiled, backends=backends)
    without = [
        f"{comparison.stem} is left out: its reference was not profiled and timed"
        for comparison in comparisons
        if not base_seconds(comparison)
    ]
    return replace(chart, left_out=[*without, *chart.left_out])


def step_bars(chart: ModelChart, line: ModelLine) -> list[StepBar]:
    """The steps of one model: those of the reference, of the best PyTorch and of the chart's backends."""
    base = base_seconds(line.comparison)
    assert base, "the chart has only models whose reference was profiled and timed"
    best = [line.best[0]] if line.best else []
    names = dict.fromkeys((line.comparison.reference, *best, *chart.backends))
    known = {breakdown.backend: breakdown for breakdown in line.comparison.breakdowns}
    return [_bar(known[name], base) for name in names if name in known]


def base_seconds(one: ReportedComparison) -> float | None:
    """Seconds of the reference's timed step, if its time is divided."""
    return next((step.timed_s for step in one.breakdowns if step.backend == one.reference), None)


def _bar(breakdown: Breakdown, base: float) -> StepBar:
    timed_s, parts = breakdown.timed_s, {} if breakdown.is_distorted else breakdown.kinds
    if parts and timed_s is not None and timed_s > breakdown.profiled_s:
        parts |= {REMAINDER: timed_s - breakdown.profiled_s}
    parts = {kind: seconds / base for kind, seconds in parts.items()}
    return StepBar(breakdown.backend, parts, None if timed_s is None else timed_s / base, timed_s)


def describe_steps(chart: ModelChart) -> str:
    """Everything that the chart shows but its caption, a sentence for each backend of a model."""
    base, sentences = "the reference's step", []
    for line in chart.lines:
        for bar in step_bars(chart, line):
            parts = ", ".join(f"{kind} {share(part)}" for kind, part in bar.parts.items())
            parts = f"parts, over {base}: {parts}" if parts else TOO_FAR
            whole = "not timed" if bar.timed is None else f"{bar.timed:.2f}{TIMES} of {base}"
            sentences.append(f"{line.label}, {one_line(bar.backend)}: {whole}; {parts}.")
    return " ".join(sentences)


def breakdown_rows(chart: ModelChart, theme: Theme) -> RowChart:
    """The chart's rows."""
    timed = style.diamond(theme)
    bars = [bar for line in chart.lines for bar in step_bars(chart, line)]

    def make_row(bar: StepBar) -> Row:
        marks = [] if bar.timed is None else [Marks(values=[bar.timed], mark=timed)]
        stack, reason = stacked(bar.parts, style.KINDS), "" if bar.parts else TOO_FAR
        return Row(name=bar.backend, bars=stack, marks=marks, beside=milliseconds(bar.timed_s), reason=reason)

    empty = [line.label for line in chart.lines if not any(bar.parts for bar in step_bars(chart, line))]
    empty = empty if len(empty) < len(chart.lines) else []
    panels = {
        heading if len(chart.panels) > 1 else "": [
            RowGroup(heading=line.label, rows=[*map(make_row, step_bars(chart, line))])
            for line in lines
            if line.label not in empty
        ]
        for heading, lines in chart.panels.items()
    }
    kinds = {kind for bar in bars for kind in bar.parts}
    legend = [bar_entry(kind, look) for kind, look in style.KINDS.items() if kind in kinds]
    sentences = [
        f"Bars: profiled steps by kind of work, over the timed step of {chart.reference}.",
        "Diamonds: timed steps, with their milliseconds; a bar that ends behind one was slowed by profiling.",
        *([f"What these take beyond the bar's kinds of work is {REMAINDER}."] if REMAINDER in kinds else []),
        *([f"Not drawn, since no profile is near its timed step: {enumerated(empty)}."] if empty else []),
        *machine_and_workload(chart),
    ]
    return RowChart(
        title=f"Where a step's time goes, relative to {chart.reference}",
        panels=panels,
        limits=(0, 1.03 * max(max(sum(bar.parts.values()), bar.timed or 0.0) for bar in bars)),
        label=f"step over {chart.reference}'s timed step ({TIMES}, shorter is faster)",
        caption=" ".join(sentences),
        legend=[*legend, mark_entry("timed step", timed)],
        row=0.11,
        bar=0.09,
    )


def breakdown_of(comparison: ReportedComparison, theme: Theme) -> RowChart:
    """The steps of every backend of one comparison."""
    chart = breakdown_chart([comparison], backends=[other.backend for other in comparison.others])
    return breakdown_rows(chart, theme)
