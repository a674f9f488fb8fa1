"""Warns where two libraries multiply at different rates, so that a comparison is partly one of theirs."""

import pandas as pd

from bench.analysis.steadiness.warnings import Warnings
from bench.machine.processor import INTEL
from bench.results.environment_cell import environment_entry, parse_environment
from bench.studies.limit.rates import GIGA, rates_by_stack

LEAST_DIFFERENCE = 0.1
"""How far two libraries' rates differ where the comparison is partly one of their matrix products."""


def find_warnings(rows: pd.DataFrame) -> Warnings:
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

    In 16 bits it multiplies with oneDNN, which does not check the maker.
    """
    columns = {"device": "cpu", "blas": "stock", "precision": "fp32"}
    if any(set(rows[column]) != {value} for column, value in columns.items()):
        return False
    environments = [parse_environment(text) for text in rows["environment"].unique()]
    vendors = {environment_entry(environment, "cpu", "vendor") for environment in environments}
    # MKL exists for x86 alone, all of whose CPUs of the last fifteen years know AVX.
    sets = [environment_entry(environment, "cpu", "instruction_sets") or () for environment in environments]
    return not vendors & {None, INTEL} and all("avx" in known for known in sets)
