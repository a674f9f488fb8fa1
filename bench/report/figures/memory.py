"""The figure of peak memory, divided into what the number of parameters predicts and the rest."""

from matplotlib.figure import Figure

from bench.report.content.collection import ReportedComparison
from bench.report.figures import chart, style
from bench.report.figures.chart import Row
from bench.report.figures.pages import Page, comparisons_of, panels_of
from bench.report.words.formatting import number
from bench.statistics.summary import BackendSummary


def draw_memory(page: Page) -> Figure:
    """The peaks of the timed blocks, divided into what the parameters predict and the rest."""
    everything = comparisons_of(page)
    peaks = [one.peak_mib(other) or 0.0 for one in everything for other in one.summaries]
    kinds = {kind for one in everything for other in one.summaries for kind, _ in _stack(other)}
    at_largest = everything[0].at_largest  # each fills what it may, so that less is not better
    return chart.draw(
        "Peak memory at each backend's largest batch" if at_largest else "Peak memory",
        panels_of(page, _memory_row, with_reference=True),
        label="peak of the timed blocks per rank or GPU (MiB"
        + ("; all may use the same)" if at_largest else ", lower is better)"),
        caption="The whole bar is measured: on a CPU the rank that has most, on a GPU the device. "
        "Weights, gradients and optimizer states are predicted from the number of parameters (under ZeRO-1 a "
        "rank's share of the states, and a copy of its share of the weights); libraries are measured before "
        "there is a model, and where they were not, they are in the rest and cannot be told from it.",
        decorate=lambda axes: axes.set_xlim(0, 1.04 * max([1.0, *peaks])),
        legend={kind: look for kind, look in style.PARTS.items() if kind in kinds},
    )


def _memory_row(one: ReportedComparison, summary: BackendSummary) -> Row:
    peak = one.peak_mib(summary)
    if peak is None:
        return Row(name=summary.backend, absent=summary.status if summary.status != "ok" else "no figure")
    stack = _stack(summary)
    beside = f"{number(peak)} MiB"
    return Row(name=summary.backend, bar=None if stack else peak, stack=stack, beside=beside)


def _stack(summary: BackendSummary) -> list[tuple[str, float]]:
    parts = summary.memory_parts
    if parts is None:
        return []
    rest, rest_with_libraries = (None, parts.rest) if parts.with_libraries else (parts.rest, None)
    sizes = (parts.runtime, parts.weights, parts.gradients, parts.optimizer, rest, rest_with_libraries)
    return [(kind, size) for kind, size in zip(style.PARTS, sizes, strict=True) if size is not None]
