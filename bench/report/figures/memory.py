"""The figure of peak memory, divided into what the number of parameters predicts and the rest."""

from matplotlib.figure import Figure

from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.pages import Page, comparisons_of, row_panels
from bench.report.figures.row_chart import draw_rows
from bench.report.figures.rows import Axis, Bar, Row, RowChart, stacked
from bench.report.figures.sheet import Swatch
from bench.report.figures.style import Theme
from bench.report.words.formatting import number
from bench.statistics.summary import BackendSummary

CAPTION = (
    "The whole bar is measured: on a CPU the rank that has most, on a GPU the device. Weights, gradients and "
    "optimizer states are predicted from the number of parameters (under ZeRO-1 a rank's share of the "
    "states, and a copy of its share of the weights); libraries are measured before there is a model, and "
    "where they were not, they are in the rest and cannot be told from it."
)


def draw_memory(page: Page, theme: Theme) -> Figure:
    """The peaks of the timed blocks, divided into what the parameters predict and the rest."""
    everything = comparisons_of(page)
    peaks = [comparison.peak_mib(other) or 0.0 for comparison in everything for other in comparison.summaries]
    kinds = {kind for comparison in everything for other in comparison.summaries for kind in _parts(other)}
    at_largest = everything[0].at_largest  # each fills what it may, so that less is not better
    better = "; all may use the same" if at_largest else ", lower is better"
    chart = RowChart(
        title="Peak memory at each backend's largest batch" if at_largest else "Peak memory",
        panels=row_panels(page, _memory_row),
        axis=Axis(low=0, high=1.04 * max([1.0, *peaks])),
        label=f"peak of the timed blocks per rank or GPU (MiB{better})",
        caption=CAPTION,
        legend=[Swatch(words=kind, bar=look) for kind, look in style.PARTS.items() if kind in kinds],
    )
    return draw_rows(chart, theme)


def _memory_row(one: ReportedComparison, summary: BackendSummary) -> Row:
    peak = one.peak_mib(summary)
    if peak is None:
        return Row(name=summary.backend, reason=summary.status if summary.status != "ok" else "no figure")
    whole = [Bar(0, peak, style.look(summary.backend))]
    bars = stacked(_parts(summary), style.PARTS) or whole
    return Row(name=summary.backend, bars=bars, beside=f"{number(peak)} MiB")


def _parts(summary: BackendSummary) -> dict[str, float]:
    """MiB of each part that is known, from the foot of the bar."""
    parts = summary.memory_parts
    if parts is None:
        return {}
    rest, rest_with_libraries = (None, parts.rest) if parts.with_libraries else (parts.rest, None)
    sizes = (parts.runtime, parts.weights, parts.gradients, parts.optimizer, rest, rest_with_libraries)
    return {kind: size for kind, size in zip(style.PARTS, sizes, strict=True) if size is not None}
