"""What the page of a comparison says of matrix products."""

from bench.report.content.collection import ReportedComparison
from bench.report.words.formatting import number
from bench.results.column_arrays import ColumnArrays
from bench.statistics.backend_blocks import at_reference_precision, median
from bench.studies.limit.rates import GIGA, rates_by_stack


def make_facts(comparison: ReportedComparison) -> list[str]:
    """The rates of matrix products at the workload's shapes, and the limit, in a line; or none."""
    rows = comparison.rows
    rates: dict[str, float | None] = {}
    for place, stack in enumerate(rates_by_stack(rows)):
        if place:
            rates[f"PyTorch on the stack {stack.stack}"] = stack.torch
        else:
            rates |= {"PyTorch": stack.torch, "ONNX Runtime": stack.onnxruntime}
    parts = [f"{name} {_gigaflops(rate)}" for name, rate in rates.items() if rate is not None]
    limit = median(at_reference_precision(ColumnArrays(rows))["limit_flops_per_s"])
    sentences = [
        f"matrix products at this workload's shapes: {', '.join(parts)}" if parts else "",
        "" if limit is None else f"limit {_gigaflops(limit)}",
    ]
    said = "; ".join(filter(None, sentences))
    return [said] if said else []


def _gigaflops(flops_per_s: float) -> str:
    return f"{number(flops_per_s / GIGA, 3)} GFLOP/s"
