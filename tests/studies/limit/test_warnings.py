"""Warnings about matrix products: whose are faster, and why."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.analysis.steadiness.warnings import find_warnings
from bench.studies.limit.rates import rates_by_stack
from tests.support.factories import ENVIRONMENT, record
from tests.support.result_files import table_of_records


def rows(torch: float | None, ort: float | None, **changes: Any) -> pd.DataFrame:
    """Two backends and the rates in GFLOP/s."""
    made = table_of_records([record(**changes), record("ortmodule", **changes)])
    made["torch_matmul_flops_per_s"] = np.nan if torch is None else torch * 1e9
    made["ort_matmul_flops_per_s"] = np.nan if ort is None else ort * 1e9
    made["limit_flops_per_s"] = 1e12
    return made


def said(table: pd.DataFrame) -> list[str]:
    return [str(warning) for warning in find_warnings(table)]


def environment(**cpu: Any) -> dict[str, Any]:
    return ENVIRONMENT | {"cpu": ENVIRONMENT["cpu"] | cpu}


def test_a_slower_path_of_mkl_is_named_with_its_remedy() -> None:
    assert said(rows(100, 190)) == [
        "ONNX Runtime multiplies 1.9 times as fast as PyTorch (190 against 100 "
        "GFLOP/s): MKL is slower on CPUs of others than Intel; device.blas=full compares without that"
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": environment(vendor="GenuineIntel")},
        {"environment": environment(vendor=None)},
        {"environment": environment(vendor="0x41", instruction_sets=["asimd", "sve"])},
        {"blas": "full"},
        {"device": "cuda"},
    ],
    ids=["intel", "unknown maker", "arm", "full", "cuda"],
)
def test_where_mkl_is_not_the_cause_only_the_fact_is_named(changes: dict[str, Any]) -> None:
    assert said(rows(100, 190, **changes))[-1:] == [
        "ONNX Runtime multiplies 1.9 times as fast as PyTorch (190 against 100 GFLOP/s)"
    ]


def test_a_faster_pytorch_is_no_slower_path() -> None:
    (warning,) = said(rows(150, 100))
    assert warning.startswith("PyTorch multiplies 1.5 times as fast as ONNX Runtime")
    assert "MKL" not in warning


@pytest.mark.parametrize("rates", [(100, 109), (100, None), (None, None)])
def test_equal_or_unknown_rates_are_no_warning(rates: tuple[float | None, float | None]) -> None:
    assert said(rows(*rates)) == []


def test_the_products_of_another_precision_than_the_reference_s_warn_of_nothing() -> None:
    table = rows(100, 100)
    table["model_flops_per_s"] = 2e11
    table.loc[1, "precision"], table.loc[1, "ort_matmul_flops_per_s"] = "bf16", 900e9
    table.loc[1, "limit_flops_per_s"] = np.nan
    assert said(table) == []
    assert [one.onnxruntime for one in rates_by_stack(table)] == [100e9]


def test_the_reference_s_stack_comes_first() -> None:
    table = rows(100, 190)
    for column, value in (("backend", "x"), ("stack", "modern"), ("torch_matmul_flops_per_s", 120e9)):
        table.loc[0, column] = value
    table["reference"] = "ortmodule"
    assert [(one.stack, one.torch) for one in rates_by_stack(table)] == [("ort", 100e9), ("modern", 120e9)]
