"""What each backend takes to begin: from rows to the table."""

import dataclasses
import math

import pytest

from bench.analysis.beginning import find_beginnings
from bench.report.content.collection import ReportedComparison
from tests.support.factories import comparison
from tests.support.reports import render_comparison
from tests.support.result_files import table_of_records

MIB = 2**20


def reported(engine: str = "ortmodule", **known: int) -> ReportedComparison:
    """PyTorch and another backend; `known` are sizes of the other."""
    records = [
        dataclasses.replace(
            one,
            engine=engine if one.backend == "other" else one.engine,
            import_seconds=(0.5 if one.backend == "other" else 3.0,),
            installed_bytes=known.get("installed", 900 * MIB) if one.backend == "other" else 2000 * MIB,
            loaded_bytes=50 * MIB,
        )
        for one in comparison({"pytorch": [[2.0], [2.0]], "other": [[1.0], [1.1]]})
    ]
    return ReportedComparison(stem="m", rows=table_of_records(records))


def test_sizes_and_times_are_those_of_the_launches() -> None:
    pytorch, other = find_beginnings(reported().rows)
    assert (pytorch.backend, pytorch.installed, pytorch.imported_s) == ("pytorch", 2000, 3.0)
    assert (other.installed, other.loaded, other.imported_s) == (900, 50, 0.5)
    rows = reported().rows
    mine = rows[rows["backend"] == "other"]
    assert other.first_step_s == pytest.approx((mine["setup_s"] + mine["first_step_s"]).median())
    assert other.peak == mine["host_peak_mib"].max()


def test_files_of_before_it_was_recorded_say_nothing() -> None:
    rows = reported().rows.assign(installed_mib=math.nan)
    assert find_beginnings(rows) == []
    page = render_comparison(ReportedComparison(stem="m", rows=rows))
    assert "What each backend takes to begin" not in page


def test_the_page_has_a_line_for_each_backend() -> None:
    page = render_comparison(reported())
    table = page[page.index("**What each backend takes to begin**") :]
    lines = [line for line in table.splitlines() if line.startswith("| other ")]
    assert len(lines) == 1
    assert lines[0].startswith("| other | 900.0 | 50.00 | 0.50 | 5.00 |")
