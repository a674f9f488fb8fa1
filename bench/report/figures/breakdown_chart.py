"""The chart of where the time of many models goes: for each a stack of every backend's step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from bench.analysis.breakdown import Breakdown
from bench.errors import UserError
from bench.report.content.breakdown import milliseconds
from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.axis import Axis
from bench.report.figures.chart_words import machine, workload
from bench.report.figures.model_chart import ModelChart, ModelLine, model_chart
from bench.report.figures.row_chart import draw_rows
from bench.report.figures.rows import Marks, Panel, Row, RowChart, RowGroup, stacked
from bench.report.figures.sheet import REPORT_WIDTH, Mark, Swatch
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES, one_line, share

REMAINDER = "not in the profile"
"""What a timed step takes beyond the profiled one."""


@dataclass(frozen=True, kw_only=True)
class StepBar:
    """One backend's step.

    Attributes:
        backend: its name.
        parts: kinds of work, in their order; what each takes of the reference's timed step.
        timed: the timed step over the reference's; None if it was not timed.
        timed_s: in seconds.
    """

    backend: str
    parts: Mapping[str, float]
    timed: float | None
    timed_s: float | None


@dataclass(frozen=True, kw_only=True)
class BreakdownChart:
    """A whole chart.

    Attributes:
        models: the same comparisons as a chart of speeds, which has their names and machines.
        backends: whose steps, beside the references'.
        left_out: a sentence for each comparison that cannot be shown.
    """

    models: ModelChart
    backends: Sequence[str]
    left_out: Sequence[str]

    def bars(self, line: ModelLine) -> list[StepBar]:
        """The steps of one model."""
        one = line.comparison
        base = base_seconds(one)
        names = (one.reference, *([line.best[0]] if line.best else []), *self.backends)
        known = {mine.backend: mine for mine in one.breakdowns}
        return [_bar(known[name], base) for name in dict.fromkeys(names) if name in known] if base else []

    @property
    def kinds(self) -> set[str]:
        """Every kind of work that is in it."""
        return {kind for line in self.models.lines for bar in self.bars(line) for kind in bar.parts}


def breakdown_chart(
    comparisons: Sequence[ReportedComparison], *, backends: Sequence[str] = ()
) -> BreakdownChart:
    """The chart of the comparisons whose reference was profiled and timed.

    Args:
        comparisons: of any kind.
        backends: whose steps, beside those of the reference and of the best PyTorch.

    Raises:
        UserError: there is no such comparison, or a backend is in none of them.
    """
    profiled = [one for one in comparisons if base_seconds(one)]
    if not profiled:
        raise UserError(
            "none of these comparisons says where its time goes",
            "measure with measure.explain=true, and keep their *.breakdown.csv beside the files",
        )
    models = model_chart(profiled, backends=backends)
    without = [
        f"{one.stem} is left out: its reference was not profiled and timed"
        for one in comparisons
        if not base_seconds(one)
    ]
    return BreakdownChart(models=models, backends=models.backends, left_out=[*without, *models.left_out])


def base_seconds(one: ReportedComparison) -> float | None:
    """Seconds of the reference's timed step, if its time is divided."""
    return next((mine.timed_s for mine in one.breakdowns if mine.backend == one.reference), None)


def _bar(mine: Breakdown, base: float) -> StepBar:
    beyond = 0.0 if mine.timed_s is None else mine.timed_s - mine.profiled_s
    parts = {**mine.kinds, **({REMAINDER: beyond} if beyond > 0 else {})}
    return StepBar(
        backend=mine.backend,
        parts={kind: seconds / base for kind, seconds in parts.items()},
        timed=None if mine.timed_s is None else mine.timed_s / base,
        timed_s=mine.timed_s,
    )


def title_of(chart: BreakdownChart) -> str:
    """The title, unless another is asked for."""
    return f"Where a step's time goes, relative to {chart.models.reference}"


def caption(chart: BreakdownChart) -> str:
    """How to read the chart, on which machine it was measured, and of which workload."""
    sentences = [
        f"Bars: profiled steps by kind of work, over the timed step of {chart.models.reference}.",
        "Diamonds: timed steps, with their milliseconds.",
        *([f"What these take beyond the bar's kinds of work is {REMAINDER}."] * (REMAINDER in chart.kinds)),
        *machine(chart.models.comparisons, headings=len(chart.models.panels)),
        workload(chart.models.comparisons),
    ]
    return " ".join(sentences)


def text_alternative(chart: BreakdownChart) -> str:
    """Everything that the chart shows, a sentence for each model."""
    lines = [
        f"{line.label}: {'; '.join(_sentence(bar) for bar in chart.bars(line))}."
        for line in chart.models.lines
    ]
    return " ".join([*lines, caption(chart)])


def _sentence(bar: StepBar) -> str:
    whole = "not timed" if bar.timed is None else f"{bar.timed:.2f}{TIMES}"
    parts = ", ".join(f"{kind} {share(part)}" for kind, part in bar.parts.items())
    return f"{one_line(bar.backend)} {whole}, of which {parts}"


def draw_breakdown(
    chart: BreakdownChart, theme: Theme, *, width: float, title: str | None = None, with_caption: bool = True
) -> Figure:
    """Draw the chart; the arguments are those of `draw_models`."""
    models, timed = chart.models, style.diamond(theme, theme.ground)
    bars = [bar for line in models.lines for bar in chart.bars(line)]
    panels = [
        Panel(
            heading=panel.heading if len(models.panels) > 1 else "",
            groups=[
                RowGroup(heading=line.label, rows=[_row(bar, timed) for bar in chart.bars(line)])
                for line in panel.lines
            ],
        )
        for panel in models.panels
    ]
    kinds = [
        Swatch(words=kind, bar=look)
        for kind, look in style.KINDS.items()
        if any(kind in bar.parts for bar in bars)
    ]
    rows = RowChart(
        title=title_of(chart) if title is None else title,
        panels=panels,
        axis=Axis(low=0, high=1.03 * max(max(sum(bar.parts.values()), bar.timed or 0.0) for bar in bars)),
        label=f"step over {models.reference}'s timed step ({TIMES}, shorter is faster)",
        caption=caption(chart) if with_caption else "",
        legend=[*kinds, Swatch(words="timed step", mark=timed)],
        row=0.115,
        bar=0.092,
    )
    return draw_rows(rows, theme, width)


def draw_breakdown_of(comparison: ReportedComparison, theme: Theme) -> Figure:
    """Draw the steps of every backend of one comparison."""
    chart = breakdown_chart([comparison], backends=[other.backend for other in comparison.others])
    return draw_breakdown(chart, theme, width=REPORT_WIDTH)


def _row(bar: StepBar, timed: Mark) -> Row:
    return Row(
        name=bar.backend,
        bars=stacked(bar.parts, style.KINDS),
        marks=[] if bar.timed is None else [Marks(values=[bar.timed], mark=timed)],
        beside=milliseconds(bar.timed_s),
    )
