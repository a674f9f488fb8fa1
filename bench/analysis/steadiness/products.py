"""The rates of matrix products behind a comparison: what its rows say, and what to warn of."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from bench.machine.processor import INTEL
from bench.results.column_arrays import ColumnArrays
from bench.results.environment_cell import environment_entry, parse_environment
from bench.statistics.backend_blocks import at_reference_precision, median

LEAST_DIFFERENCE = 0.1
"""How far two libraries' rates differ where the comparison is partly one of their matrix products."""

GIGA = 1e9

Warnings = Iterator[tuple[str, str, str]]  # what kind each warning is of, what was seen, and the remedy


@dataclass(frozen=True, kw_only=True)
class ProductRates:
    """FLOP/s of all ranks together, in matrix products at the workload's shapes, on one stack."""

    stack: str
    torch: float | None
    onnxruntime: float | None


def rates_by_stack(rows: pd.DataFrame) -> list[ProductRates]:
    """The rates that valid rows of the reference's precision hold, the reference's stack first.

    A run that goes on with an earlier one measures them again: then it is the median of a stack's rows.
    """
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


def warn_of_difference(rows: pd.DataFrame) -> Warnings:
    """What the difference of two libraries' matrix products explains."""
    for rates in rates_by_stack(rows)[:1]:
        if rates.torch is None or rates.onnxruntime is None:
            continue
        both = sorted([(rates.torch, "PyTorch"), (rates.onnxruntime, "ONNX Runtime")])
        (slow, slower), (fast, faster) = both
        if fast <= (1 + LEAST_DIFFERENCE) * slow:
            continue
        seen = (
            f"{faster} multiplies {fast / slow:.1f} times as fast as {slower} "
            f"({fast / GIGA:,.0f} against {slow / GIGA:,.0f} GFLOP/s)"
        )
        if slower == "PyTorch" and _mkl_may_hold_back(rows):
            seen = f"{seen}: MKL is slower on CPUs of others than Intel"
            yield "matrix products", seen, "device.blas=full compares without that"
        else:
            yield "matrix products", seen, ""


def _mkl_may_hold_back(rows: pd.DataFrame) -> bool:
    """Whether PyTorch multiplied with MKL as it is installed, on a CPU that Intel did not make.

    In 16 bits it multiplies with oneDNN, which does not look at the maker.
    """
    columns = {"device": "cpu", "blas": "stock", "precision": "fp32"}
    if any(set(rows[column]) != {value} for column, value in columns.items()):
        return False
    environments = [parse_environment(text) for text in rows["environment"].unique()]
    vendors = {environment_entry(environment, "cpu", "vendor") for environment in environments}
    # MKL exists for x86 alone, all of whose CPUs of the last fifteen years know AVX.
    sets = [environment_entry(environment, "cpu", "instruction_sets") or () for environment in environments]
    return not vendors & {None, INTEL} and all("avx" in known for known in sets)
