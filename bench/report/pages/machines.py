"""reports/machines.md: comparisons that several machines made, and how far machines lie apart."""

from collections.abc import Iterable, Mapping

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.labels import model_label
from bench.analysis.machines import BackendOnMachines, SameComparison, group_by_comparison
from bench.analysis.steadiness.products import GIGA, rates_by_stack
from bench.report.content.blocks import Block, Heading, Paragraph, Small, Table, Text, table_of_texts
from bench.report.words.formatting import MISSING, number, ratio
from bench.report.words.titles import make_title
from bench.statistics.intervals import Speedup

PRODUCTS = "GFLOP/s: PyTorch, ONNX Runtime"

EXPLANATION = (
    "In brackets the 95 % interval: in a machine's row over its own launches, which says nothing of other "
    "machines; in the row of the mean over machines. The last row is where one more machine lies with 95 %, "
    "by a random-effects model; of three machines that is wide, and of two nothing is known of it."
)


def machines_page(by_machine: Mapping[str, Iterable[ComparisonResults]]) -> list[Block]:
    """reports/machines.md: a table for every comparison that at least two machines made."""
    groups = group_by_comparison(by_machine)
    text = EXPLANATION if groups else "No two machines have made the same comparison."
    blocks: list[Block] = [Heading("The same comparison on several machines", 1), Paragraph(text)]
    for same in groups:
        blocks += [Heading(title_of(same)), machines_table(same)]
    return blocks


def title_of(same: SameComparison) -> str:
    """What was compared: the model, the ranks, and what is not as usual."""
    rows = next(iter(same.machines.values())).rows
    columns = ("model", "size", "layers", "published_layers")
    return make_title(rows, model_label(*(rows[column].iloc[0] for column in columns)))


def machines_table(same: SameComparison) -> Table:
    """A row for each machine, then one for their mean and one for one more machine, where these are known."""
    headers = ["machine", PRODUCTS, *(f"{backend.backend} over {backend.base}" for backend in same.backends)]
    rows: list[list[Text]] = [
        [
            name,
            _products(results),
            *(ratio_above_interval(backend.speedups.get(name)) for backend in same.backends),
        ]
        for name, results in same.machines.items()
    ]
    for name, cell in (("mean of machines", _mean), ("one more machine", _prediction)):
        cells = [cell(backend) for backend in same.backends]
        if any(cell != MISSING for cell in cells):
            rows.append([name, "", *cells])
    return table_of_texts(headers, rows, text_columns=headers[:2])


def _products(results: ComparisonResults) -> str:
    """`194, 205`: billions of operations per second in matrix products, by PyTorch and by ONNX Runtime."""
    rates = next(iter(rates_by_stack(results.rows)), None)
    known = [rates.torch, rates.onnxruntime] if rates else []
    return ", ".join(number(rate and rate / GIGA, 3) for rate in known)


def ratio_above_interval(speedup: Speedup | None) -> Text:
    """A ratio with its interval, which stands below it where a cell has several lines."""
    return [ratio(speedup.ratio), Small(speedup.interval)] if speedup else MISSING


def _mean(backend: BackendOnMachines) -> Text:
    spread = backend.spread
    return [ratio(spread.mean), Small(f"[{spread.low:.3f}, {spread.high:.3f}]")] if spread else MISSING


def _prediction(backend: BackendOnMachines) -> str:
    spread = backend.spread
    if spread is None or spread.predicted_low is None or spread.predicted_high is None:
        return MISSING
    return f"[{spread.predicted_low:.2f}, {spread.predicted_high:.2f}]"
