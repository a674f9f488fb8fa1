"""A row's share of the device's rate of matrix products."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.analysis.summary import summarise
from bench.errors import UserError
from bench.report.collection import ReportedComparison
from bench.report.comparison_page import render_comparison
from bench.report.comparison_terminal import render_terminal
from bench.results import csv_files
from bench.results.records import Product, Roofline
from bench.results.rows import rows_of_record
from tests.support.factories import block, record, workload

FOUND = Roofline(
    counted=((4, 1000), (8, 1800)),
    counted_on="shapes",
    products=(Product(flops=6000, seconds=2.0), Product(flops=5000, seconds=1.0)),
)


def row(found: Roofline, **changes: Any) -> dict[str, Any]:
    """10 steps in 2 s of 2 ranks with 2 micro-batches of 4 each."""
    (made,) = rows_of_record(record(roofline=found, blocks=(block(),), **changes))
    return made


def test_a_row_holds_the_work_of_all_ranks_and_the_share_of_their_rate() -> None:
    made = row(FOUND)
    assert made["model_flops_per_step"] == 1000 * 2 * 2
    assert made["model_flops_per_s"] == 4000 * 10 / 2.0
    assert made["limit_flops_per_s"] == 3000 + 5000
    assert made["roofline_share"] == 20_000 / 8000


def test_a_larger_micro_batch_has_more_work() -> None:
    assert row(FOUND, workload=workload(micro_batch=12))["model_flops_per_step"] == 2600 * 2 * 2


@pytest.mark.parametrize("unknown", ["counted", "products"])
def test_what_is_not_known_is_blank(unknown: str) -> None:
    nothing: dict[str, Any] = {unknown: ()}
    made = row(dataclasses.replace(FOUND, **nothing))
    assert made["roofline_share"] is None
    assert (made["model_flops_per_step"] is None) == (unknown == "counted")
    assert (made["limit_flops_per_s"] is None) == (unknown == "products")


def test_the_share_is_averaged_over_launches_and_shown() -> None:
    records = [
        record(launch=launch, roofline=FOUND, blocks=(block(seconds=seconds),))
        for launch, seconds in ((1, 40.0), (2, 160.0))
    ]
    rows = csv_files.table_of_records(records)
    (summary,) = summarise(rows)
    assert summary.roofline_share == pytest.approx(4000 * 10 / 80.0 / 8000)
    assert "| 6.2 % |" in render_comparison(ReportedComparison(stem="x", rows=rows))
    assert "of the matrix-product rate measured here: 6.2 % (pytorch)" in str(
        render_terminal(ReportedComparison(stem="x", rows=rows)).caption
    )


def test_without_a_rate_there_is_no_column() -> None:
    rows = csv_files.table_of_records([record()])
    assert summarise(rows)[0].roofline_share is None
    assert "matmul" not in render_comparison(ReportedComparison(stem="x", rows=rows))


@pytest.mark.parametrize("column", ["model_flops_per_s", "roofline_share"])
def test_a_file_whose_shares_do_not_add_up_is_refused(column: str, tmp_path: Path) -> None:
    made = row(FOUND) | {column: 0.5}
    csv_files.write_rows(tmp_path / "x.csv", [made])
    with pytest.raises(UserError, match=f"{column} is not what it is derived from"):
        csv_files.read(tmp_path / "x.csv")


def test_other_nodes_are_another_measurement() -> None:
    rows = csv_files.table_of_records(
        [record(), record("ortmodule", workload=workload(nodes=2))],
    )
    assert "nodes 2 (reference 1)" in summarise(rows)[1].message
