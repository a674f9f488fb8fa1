"""The table of a comparison that several machines made: a row for each, and how far machines lie apart."""

from collections.abc import Iterable, Mapping

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.labels import model_label
from bench.analysis.machines import BackendOnMachines, SameComparison, group_by_comparison
from bench.analysis.products import GIGA, rates_by_stack
from bench.report.formatting import MISSING, TIMES, number, ratio_and_interval
from bench.report.markdown import table
from bench.report.render.markdown import escaped
from bench.report.titles import make_title

PRODUCTS = "GFLOP/s: PyTorch, ONNX Runtime"

EXPLANATION = (
    "In brackets the 95 % interval: in a machine's row over its own launches, which says nothing of other "
    "machines; in the row of the mean over machines. The last row is where one more machine lies with 95 %, "
    "by a random-effects model; of three machines that is wide, and of two nothing is known of it."
)


def render_machines(by_machine: Mapping[str, Iterable[ComparisonResults]]) -> str:
    """reports/machines.md: a table for every comparison that at least two machines made.

    Args:
        by_machine: the comparisons of each machine, by its name.
    """
    groups = group_by_comparison(by_machine)
    sections = [line for same in groups for line in (f"## {escaped(title_of(same))}", "", *_table(same))]
    said = [EXPLANATION, "", *sections] if groups else ["No two machines have made the same comparison.", ""]
    return "\n".join(["# The same comparison on several machines", "", *said])


def title_of(same: SameComparison) -> str:
    """What was compared: the model, the ranks, and what is not as usual."""
    rows = next(iter(same.machines.values())).rows
    columns = ("model", "size", "layers", "published_layers")
    return make_title(rows, model_label(*(rows[column].iloc[0] for column in columns)))


def headers_of(same: SameComparison) -> list[str]:
    """The columns: the machine, its matrix products, and each backend's speed-up."""
    return ["machine", PRODUCTS, *(f"{one.backend} over {one.base}" for one in same.backends)]


def rows_of(same: SameComparison) -> list[list[str]]:
    """The cells of `headers_of`: a row for each machine, one for their mean, and one for one more machine."""
    rows = [
        [name, products_of(results), *(ratio_and_interval(one.speedups.get(name)) for one in same.backends)]
        for name, results in same.machines.items()
    ]
    of_all = {"mean of machines": _mean, "one more machine": _prediction}
    lines = [[name, "", *map(cell, same.backends)] for name, cell in of_all.items()]
    return rows + [line for line in lines if set(line[2:]) != {MISSING}]


def products_of(results: ComparisonResults) -> str:
    """`194, 205`: billions of operations per second in matrix products, by PyTorch and by ONNX Runtime."""
    rates = next(iter(rates_by_stack(results.rows)), None)
    known = [rates.torch, rates.onnxruntime] if rates else []
    return ", ".join(number(rate and rate / GIGA, 3) for rate in known)


def _table(same: SameComparison) -> list[str]:
    headers = headers_of(same)
    return table(headers, rows_of(same), numeric=headers[2:])


def _mean(one: BackendOnMachines) -> str:
    spread = one.spread
    return f"{spread.mean:.3f}{TIMES} [{spread.low:.3f}, {spread.high:.3f}]" if spread else MISSING


def _prediction(one: BackendOnMachines) -> str:
    spread = one.spread
    if spread is None or spread.predicted_low is None or spread.predicted_high is None:
        return MISSING
    return f"[{spread.predicted_low:.2f}, {spread.predicted_high:.2f}]"
