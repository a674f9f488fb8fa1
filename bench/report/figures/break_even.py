"""The figure of break-even: after how many steps a faster backend has paid for its longer set-up."""

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.report.collection import ReportedComparison
from bench.report.figures import chart
from bench.report.figures.chart import Row
from bench.report.figures.pages import Page, comparisons_of, panels_of
from bench.statistics.summary import BackendSummary


def draw_break_even(page: Page) -> Figure:
    """A bar for each backend: the steps after which it has made up for its longer set-up."""
    steps = [other.break_even_steps or 0 for one in comparisons_of(page) for other in one.others]
    return chart.draw(
        "Steps until a faster backend has paid for its set-up",
        panels_of(page, _break_even_row, with_reference=False, relative=True),
        label="break-even (optimizer steps, logarithmic, lower is better)",
        caption="Extra seconds of set-up and first step, over the seconds saved per step. Only what is "
        "faster pays back at all.",
        decorate=partial(_logarithmic, most=max([10.0, *map(float, steps)])),
    )


def _break_even_row(one: ReportedComparison, summary: BackendSummary) -> Row:  # noqa: ARG001 - every figure's rows have both
    steps = summary.break_even_steps
    if steps is None:
        reason = f"never: {summary.verdict or 'no speed-up'}"
        return Row(name=summary.backend, absent=summary.status if summary.status != "ok" else reason)
    return Row(name=summary.backend, bar=max(1.0, steps), inside=f"{steps:,}")


def _logarithmic(axes: Axes, *, most: float) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda steps, _: f"{steps:,.0f}"))
    axes.set_xlim(1, 2 * most)
