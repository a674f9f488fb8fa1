"""How far machines lie apart: published examples, machines that are equal, and too few of them."""

import math

import numpy as np
import pytest
import scipy.stats

from bench.analysis.comparison_results import ComparisonResults
from bench.compare.kinds import HostSpread, group_by_comparison, group_by_kind
from bench.report.render.markdown import render_markdown
from bench.results.records import Record
from bench.studies.machines.pages import machines_page, machines_table
from bench.studies.machines.spread import compare_backends, spread_of, variance_between
from tests.support.factories import ENVIRONMENT, two_backends, with_environment
from tests.support.result_files import table_of_records

KACKER = np.array([61.00, 61.40, 62.21, 62.30, 62.34, 62.60, 62.70, 62.84, 65.90])
KACKER_VARIANCES = np.array([0.2025, 1.2100, 0.0900, 0.2025, 0.3844, 0.5625, 0.0676, 0.0225, 1.8225])
"""Nine laboratories: R. N. Kacker, Metrologia 41 (2004), 132-136, table 1."""


def results(records: list[Record], stem: str = "bert-tiny-cpux2") -> ComparisonResults:
    return ComparisonResults(stem=stem, rows=table_of_records(records))


# The model


def test_the_variance_between_is_that_of_a_published_example() -> None:
    assert math.sqrt(variance_between(KACKER, KACKER_VARIANCES)) == pytest.approx(0.8399, abs=6e-5)


def test_mean_and_standard_error_are_those_that_metafor_finds_for_it() -> None:
    """`rma(y, v, method="PM")` of R's metafor, as statsmodels' tests quote it."""
    shift = 62.0  # else the ratio of a logarithm of 62 has too few digits left
    spread = spread_of(KACKER - shift, KACKER_VARIANCES)
    assert variance_between(KACKER - shift, KACKER_VARIANCES) == pytest.approx(0.705395309224248, rel=1e-6)
    assert math.log(spread.mean) + shift == pytest.approx(62.4076199113286, abs=1e-7)
    half = float(scipy.stats.t.ppf(0.975, 8)) * 0.338030602684471
    assert math.log(spread.high / spread.low) / 2 == pytest.approx(half, rel=1e-6)


def test_equal_machines_have_no_variance_between_them() -> None:
    logs, variances = np.full(4, math.log(1.1)), np.full(4, 0.01**2)
    spread = spread_of(logs, variances)
    assert variance_between(logs, variances) == 0
    assert spread.mean == pytest.approx(1.1)
    assert math.log(spread.high / 1.1) == pytest.approx(float(scipy.stats.t.ppf(0.975, 3)) * 0.005)


def test_three_machines_of_one_kind_whose_intervals_exclude_each_other() -> None:
    logs, highs = np.log([0.955, 1.010, 1.065]), np.log([0.975, 1.036, 1.074])
    variances = ((highs - logs) / float(scipy.stats.t.ppf(0.975, 3))) ** 2
    spread = spread_of(logs, variances)
    assert math.sqrt(variance_between(logs, variances)) == pytest.approx(0.055, abs=0.002)
    assert spread.low < 0.9  # three machines say little about their kind


# Hosts and kinds


def test_each_machine_has_a_row_and_the_shortest_name_of_several_counts() -> None:
    by_machine = {
        "one": [results(two_backends(1, ort=1.0), "longer-name"), results(two_backends(2), "name")],
        "two": [results(of_kind(8, two_backends(3)))],
        "three": [results(of_kind(9, two_backends(4)))],
    }
    (same,) = group_by_comparison(by_machine)
    (ort,) = compare_backends(same, HostSpread())
    assert (ort.backend, ort.base) == ("ortmodule", "pytorch")
    assert list(ort.speedups) == ["one", "two", "three"]
    assert ort.speedups["one"].ratio == pytest.approx(2.0 / 1.5, rel=0.01)


def of_kind(family: int, records: list[Record]) -> list[Record]:
    """The same on another kind of machine."""
    return with_environment(records, cpu=ENVIRONMENT["cpu"] | {"family": family})


def test_hosts_of_a_kind_count_as_one_machine_of_which_their_mean_is_known() -> None:
    by_machine = {
        "one": [results(two_backends(1, ort=1.4))],
        "two": [results(two_backends(2, ort=1.6))],
        "other": [results(of_kind(8, two_backends(3)))],
    }
    (same,) = group_by_comparison(by_machine)
    (ort,) = compare_backends(same, HostSpread())
    assert group_by_kind(same.machines) == [["one", "two"], ["other"]]
    mean = ort.kinds["one"]
    assert mean.ratio == pytest.approx(2.0 / math.sqrt(1.4 * 1.6), rel=0.01)
    assert mean.low is not None
    assert math.log(mean.ratio / mean.low) == pytest.approx(1.96 * 0.05 / math.sqrt(2), rel=0.05)
    assert ort.spread is not None
    (first, second, hosts, third, *_) = (row[0].text for row in machines_table(same, HostSpread()).rows)
    assert [first, second, hosts, third] == ["one", "two", "mean of these 2 hosts", "other"]


# The table


def test_the_table_has_a_row_for_each_machine_and_their_mean() -> None:
    by_machine = {f"machine {n}": [results(of_kind(n, two_backends(n)))] for n in (1, 2, 3)}
    page = render_markdown(machines_page(group_by_comparison(by_machine), HostSpread()))
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert lines[0] == "| machine | GFLOP/s: PyTorch, ONNX Runtime | ortmodule over pytorch |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [*by_machine, "mean of kinds"]
    del by_machine["machine 2"], by_machine["machine 3"]
    page = render_markdown(machines_page(group_by_comparison(by_machine), HostSpread()))
    assert "No two machines have made the same comparison." in page
