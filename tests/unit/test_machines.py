"""How far machines lie apart: published examples, machines that are equal, and too few of them."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.machines import (
    BackendOnMachines,
    HostSpread,
    SameComparison,
    group_by_comparison,
    group_by_kind,
    settings_of,
    spread_between_hosts,
    spread_of,
    variance_between,
)
from bench.report.pages.machines import machines_page, machines_table
from bench.report.render.markdown import render_markdown
from bench.results.records import Record
from tests.support.factories import (
    ENVIRONMENT,
    comparison,
    noisy_seconds,
    two_backends,
    with_environment,
    workload,
)
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


# Which comparisons are the same


def test_each_machine_has_a_row_and_the_shortest_name_of_several_counts() -> None:
    by_machine = {
        "one": [results(two_backends(1, ort=1.0), "longer-name"), results(two_backends(2), "name")],
        "two": [results(of_kind(8, two_backends(3)))],
        "three": [results(of_kind(9, two_backends(4)))],
    }
    (same,) = group_by_comparison(by_machine)
    (ort,) = same.backends
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
    (ort,) = same.backends
    assert group_by_kind(same.machines) == [["one", "two"], ["other"]]
    mean = ort.kinds["one"]
    assert mean.ratio == pytest.approx(2.0 / math.sqrt(1.4 * 1.6), rel=0.01)
    assert mean.low is not None
    assert math.log(mean.ratio / mean.low) == pytest.approx(1.96 * 0.05 / math.sqrt(2), rel=0.05)
    assert ort.spread is not None
    (first, second, hosts, third, *_) = (row[0].text for row in machines_table(same).rows)
    assert [first, second, hosts, third] == ["one", "two", "mean of these 2 hosts", "other"]


@pytest.mark.parametrize(("kinds", "pairs"), [([1], 0), ([2], 1), ([2, 2], 2), ([3], 2)])
def test_until_three_pairs_are_known_the_spread_of_hosts_is_the_stated_one(
    kinds: list[int], pairs: int
) -> None:
    assert spread_between_hosts(hosts_of(kinds, 0.2)) == HostSpread(deviation=0.05, pairs=pairs)


@pytest.mark.parametrize("kinds", [[4], [2, 2, 2], [3, 2]])
@pytest.mark.parametrize("deviation", [0.0, 0.03, 0.1])
def test_the_spread_of_hosts_is_estimated_from_three_pairs_on(kinds: list[int], deviation: float) -> None:
    many = [spread_between_hosts(hosts_of(kinds, deviation, seed)) for seed in range(40)]
    assert {(spread.pairs, spread.freedom) for spread in many} == {(3, 3)}
    squared = np.mean([spread.deviation**2 for spread in many])
    assert math.sqrt(squared) == pytest.approx(deviation, rel=0.3, abs=0.005)


def hosts_of(kinds: list[int], deviation: float, seed: int = 0) -> list[SameComparison]:
    """A comparison by so many hosts of each kind, whose true log speed-ups have this standard deviation."""
    random = np.random.default_rng(seed)
    machines = {
        f"{kind}-{host}": ComparisonResults(
            stem="x", rows=pd.DataFrame({"environment": [json.dumps({"cpu": {"family": kind}})]})
        )
        for kind, hosts in enumerate(kinds)
        for host in range(hosts)
    }
    launches = {
        name: random.normal(0, deviation) + random.normal(0, 0.01, 4) + 0.3 * int(name[0])
        for name in machines
    }
    backend = BackendOnMachines(backend="b", base="a", speedups={}, launches=launches, kinds={}, spread=None)
    return [SameComparison(machines=machines, backends=[backend])]


def test_one_machine_is_no_group() -> None:
    assert group_by_comparison({"one": [results(two_backends(1)), results(two_backends(2), "again")]}) == []


@pytest.mark.parametrize("changes", [{"blas": "full"}, {"allocator": "system"}, {"threads_per_rank": 2}])
def test_other_settings_are_another_comparison(changes: dict[str, object]) -> None:
    two = {"pytorch": noisy_seconds(2.0, 1), "ortmodule": noisy_seconds(1.5, 2)}
    one, other = results(comparison(two)), results(comparison(two, **changes))
    assert group_by_comparison({"one": [one], "two": [other]}) == []
    unequal = {name for name, value in settings_of(one).items() if settings_of(other)[name] != value}
    assert unequal == set(changes)


def test_another_backend_of_the_same_name_is_left_out_and_one_beside_it_does_not_matter() -> None:
    two = {"pytorch": noisy_seconds(2.0, 1), "ortmodule": noisy_seconds(1.5, 2)}
    more = results(comparison({**two, "pytorch_fused": noisy_seconds(1.9, 3)}))
    (same,) = group_by_comparison({"one": [results(comparison(two))], "two": [more]})
    assert [one.backend for one in same.backends] == ["ortmodule"]
    renamed = more.rows.assign(optimizer=more.rows["optimizer"].replace("adamw_fused", "adamw"))
    slowed = more.rows.assign(slowed_by=0.05 * (more.rows["backend"] != "pytorch"))
    for rows in (renamed, slowed):
        changed = ComparisonResults(stem="other", rows=rows)
        assert group_by_comparison({"one": [results(comparison(two))], "two": [changed]}) == []


def test_the_largest_batch_is_a_result_and_no_setting() -> None:
    one, two = (
        results(
            comparison({"pytorch": noisy_seconds(2.0, 1)}, workload=workload(batch_rule="max", micro_batch=n))
        )
        for n in (4, 8)
    )
    assert settings_of(one) == settings_of(two)


# The table


def test_the_table_has_a_row_for_each_machine_and_their_mean() -> None:
    by_machine = {f"machine {n}": [results(of_kind(n, two_backends(n)))] for n in (1, 2, 3)}
    lines = [
        line
        for line in render_markdown(machines_page(group_by_comparison(by_machine))).splitlines()
        if line.startswith("|")
    ]
    assert lines[0] == "| machine | GFLOP/s: PyTorch, ONNX Runtime | ortmodule over pytorch |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        *by_machine,
        "mean of kinds",
    ]
    del by_machine["machine 2"], by_machine["machine 3"]
    assert "No two machines have made the same comparison." in render_markdown(
        machines_page(group_by_comparison(by_machine))
    )
