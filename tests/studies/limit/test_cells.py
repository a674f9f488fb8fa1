"""A row's rates of matrix products, the limit that they set, and its share of it."""

import dataclasses
from typing import Any

import pandas as pd
import pytest

from bench.report.content.collection import ReportedComparison
from bench.results.columns import HASHES
from bench.results.rows import rows_of_record
from bench.statistics.summary import summarise
from bench.studies.limit.cells import combined_rate, model_flops
from bench.studies.limit.found import Product, Roofline, Shape, TimedLibrary, WorkloadProduct
from tests.support.factories import block, record, workload
from tests.support.git import COMMITTED
from tests.support.reports import render_comparison
from tests.support.result_files import table_of_records

SQUARE, WIDE, DEEP = (
    Shape(batch=1, rows=rows, inner=inner, columns=columns)
    for rows, inner, columns in ((10, 10, 10), (2, 4, 100), (2, 100, 4))
)


def products(*seconds: float) -> tuple[Product, ...]:
    """24,000 FLOPs in so many seconds for each shape."""
    shapes = (SQUARE, WIDE, DEEP)
    return tuple(
        Product(shape=shape, flops=24_000, seconds=one) for shape, one in zip(shapes, seconds, strict=False)
    )


def library(
    name: str, *ranks: tuple[Product, ...], stack: str = "ort", precision: str = "fp32"
) -> TimedLibrary:
    return TimedLibrary(library=name, stack=stack, precision=precision, ranks=ranks)


TORCH = library("torch", products(2, 4, 8), products(2, 4, 4))
"""FLOP/s of both ranks: 24,000 at the square, 12,000 at WIDE and 9000 at DEEP."""

ORT = library("onnxruntime", products(4, 1, 2), products(4, 1, 2))
"""12,000, 48,000 and 24,000."""

FOUND = Roofline(
    counted=((4, 1000), (8, 1800)),
    products=(WorkloadProduct(shape=WIDE, flops=600), WorkloadProduct(shape=DEEP, flops=300)),
    libraries=(TORCH, ORT),
)


def row(found: Roofline, **changes: Any) -> dict[str, Any]:
    """10 steps in 2 s of 2 ranks with 2 micro-batches of 4 each."""
    (made,) = rows_of_record(record(found={"limit": found}, blocks=(block(),), **changes))
    return made


def test_a_row_holds_the_work_of_all_ranks_and_its_share_of_the_limit() -> None:
    made = row(FOUND)
    assert made["model_flops_per_step"] == 1000 * 2 * 2
    assert made["model_flops_per_s"] == 4000 * 10 / 2.0
    assert made["limit_flops_per_s"] == 48_000, "by ONNX Runtime, at WIDE"
    assert made["roofline_share"] == 20_000 / 48_000


def test_a_library_s_rate_is_the_workload_s_work_over_the_time_that_it_would_take() -> None:
    made = row(FOUND)
    assert made["torch_matmul_flops_per_s"] == pytest.approx(900 / (600 / 12_000 + 300 / 9_000))
    assert made["ort_matmul_flops_per_s"] == pytest.approx(900 / (600 / 48_000 + 300 / 24_000))


def test_a_larger_micro_batch_has_more_work() -> None:
    assert row(FOUND, workload=workload(micro_batch=12))["model_flops_per_step"] == 2600 * 2 * 2


def test_work_that_does_not_grow_with_the_samples_is_told_from_what_does_and_rates_combine() -> None:
    for samples, flops in ((8, 1000), (20, 2200), (1, 300)):
        assert model_flops(((8, 1000), (16, 1800)), samples) == flops
    assert combined_rate([(600, 100), (300, 50)]) == 75, "all the work over all the time"


def test_a_row_has_the_rate_of_its_own_stack_and_the_limit_of_all() -> None:
    modern = library("torch", products(0.5, 4, 4), products(0.5, 4, 4), stack="modern")
    found = dataclasses.replace(FOUND, libraries=(TORCH, ORT, modern))
    there = row(found, stack="modern")
    assert there["torch_matmul_flops_per_s"] == pytest.approx(900 / (900 / 12_000))
    assert there["ort_matmul_flops_per_s"] == row(found)["ort_matmul_flops_per_s"], "which is nowhere else"
    assert row(found)["torch_matmul_flops_per_s"] == row(FOUND)["torch_matmul_flops_per_s"]
    assert there["limit_flops_per_s"] == row(found)["limit_flops_per_s"] == 96_000


def test_what_was_timed_at_another_precision_is_no_rate_and_no_limit() -> None:
    half = library("torch", products(1, 1, 1), products(1, 1, 1), precision="bf16")
    made = row(dataclasses.replace(FOUND, libraries=(TORCH, ORT, half)))
    assert made == row(FOUND)
    other = row(FOUND, workload=workload(precision="bf16"))
    blank = ("torch_matmul_flops_per_s", "ort_matmul_flops_per_s", "limit_flops_per_s", "roofline_share")
    assert [other.get(column) for column in blank] == [None] * 4
    assert other["model_flops_per_s"] == 20_000


def test_a_file_that_has_the_reference_s_limit_beside_another_precision_has_no_share_there() -> None:
    half = library("torch", products(0.5, 1, 1), precision="bf16")
    found = dataclasses.replace(FOUND, libraries=(TORCH, half))
    rows = table_of_records(
        [
            record(found={"limit": found}, blocks=(block(),)),
            record("x", found={"limit": found}, blocks=(block(),), workload=workload(precision="bf16")),
        ]
    )
    assert [one.roofline_share for one in summarise(rows)] == pytest.approx([5 / 6, 5 / 12])
    rows["limit_flops_per_s"] = 24_000.0
    assert [one.roofline_share for one in summarise(rows)] == [pytest.approx(5 / 6), None]


@pytest.mark.parametrize("unknown", ["counted", "libraries"])
def test_what_is_not_known_is_blank(unknown: str) -> None:
    nothing: dict[str, Any] = {unknown: ()}
    made = row(dataclasses.replace(FOUND, **nothing))
    assert made["roofline_share"] is None
    assert (made["model_flops_per_step"] is None) == (unknown == "counted")
    assert (made["limit_flops_per_s"] is None) == (unknown == "libraries")
    assert (made["torch_matmul_flops_per_s"] is None) == (unknown == "libraries")


def test_a_shape_that_one_rank_could_not_multiply_leaves_the_rate_blank_and_counts_for_no_limit() -> None:
    ort = library("onnxruntime", products(4, 1, 2), products(4))
    made = row(dataclasses.replace(FOUND, libraries=(TORCH, ort)))
    assert made["ort_matmul_flops_per_s"] is None
    assert made["limit_flops_per_s"] == 24_000


def test_a_limit_that_training_exceeds_was_measured_too_low_and_is_left_out() -> None:
    slow = library("torch", products(4, 4, 4), products(4, 4, 4))
    made = row(dataclasses.replace(FOUND, libraries=(slow,)))
    assert made["model_flops_per_s"] == 20_000
    assert made["torch_matmul_flops_per_s"] == pytest.approx(12_000)
    assert made["limit_flops_per_s"] is None
    assert made["roofline_share"] is None


def test_the_share_is_averaged_over_launches_and_shown_beside_the_rates() -> None:
    records = [
        record(launch=launch, found={"limit": FOUND}, blocks=(block(seconds=seconds),))
        for launch, seconds in ((1, 40.0), (2, 160.0))
    ]
    rows = table_of_records(records)
    (summary,) = summarise(rows)
    assert summary.roofline_share == pytest.approx(4000 * 10 / 80.0 / 48_000)
    page = render_comparison(ReportedComparison(stem="x", rows=rows))
    assert "| of limit |" in page
    assert "| 1.0 % |" in page


def test_the_rates_are_said_in_one_line() -> None:
    tera = tuple(
        library(
            one.library, *(tuple(dataclasses.replace(p, flops=10**10) for p in rank) for rank in one.ranks)
        )
        for one in (TORCH, ORT)
    )
    rows = table_of_records([record(found={"limit": dataclasses.replace(FOUND, libraries=tera)})])
    said = (
        "matrix products at this workload's shapes: PyTorch 4.50 GFLOP/s, ONNX Runtime 15.0 GFLOP/s; "
        "limit 20.0 GFLOP/s"
    )
    assert said in render_comparison(ReportedComparison(stem="x", rows=rows))


def test_without_a_limit_there_is_neither_column_nor_line() -> None:
    rows = table_of_records([record()])
    assert summarise(rows)[0].roofline_share is None
    page = render_comparison(ReportedComparison(stem="x", rows=rows))
    assert "of limit" not in page
    assert "matrix products" not in page


def test_no_committed_result_exceeds_its_limit() -> None:
    tables = {path: pd.read_csv(path, dtype=HASHES) for path in COMMITTED.glob("results/**/*.csv")}
    with_shares = {path.name: table for path, table in tables.items() if "roofline_share" in table}
    assert with_shares
    for name, table in with_shares.items():
        assert (table["roofline_share"].dropna() <= 1).all(), name
