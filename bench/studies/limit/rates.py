"""The rates of matrix products behind a comparison, as its rows say."""

from dataclasses import dataclass

import pandas as pd

from bench.results.column_arrays import ColumnArrays
from bench.statistics.backend_blocks import at_reference_precision, median

GIGA = 1e9


@dataclass(frozen=True, kw_only=True)
class ProductRates:
    """FLOP/s of all ranks together, in matrix products at the workload's shapes, on one stack."""

    stack: str
    torch: float | None
    onnxruntime: float | None


def rates_by_stack(rows: pd.DataFrame) -> list[ProductRates]:
    """Medians of what valid rows of the reference's precision hold, the reference's stack first."""
    cells = at_reference_precision(ColumnArrays(rows))
    valid = cells.where(cells["status"] == "ok")
    stacks = sorted(
        dict.fromkeys(valid["stack"]),
        key=lambda stack: not ((valid["stack"] == stack) & (valid["backend"] == valid["reference"])).any(),
    )
    rates = []
    for stack in stacks:
        of_stack = valid.where(valid["stack"] == stack)
        torch, onnxruntime = (
            median(of_stack[f"{library}_matmul_flops_per_s"]) for library in ("torch", "ort")
        )
        rates.append(ProductRates(stack=str(stack), torch=torch, onnxruntime=onnxruntime))
    return rates
