"""Which comparisons are the same, and how far the hosts of a kind lie apart."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from bench.analysis.comparison_results import ComparisonResults
from bench.compare.kinds import (
    HostSpread,
    SameComparison,
    group_by_comparison,
    settings_of,
    spread_between_hosts,
)
from bench.results.records import Record
from tests.support.factories import comparison, noisy_seconds, two_backends, workload
from tests.support.result_files import table_of_records


def results(records: list[Record], stem: str = "bert-tiny-cpux2") -> ComparisonResults:
    return ComparisonResults(stem=stem, rows=table_of_records(records))


# Which comparisons are the same


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
    return [SameComparison(machines=machines, launches={"b": launches})]


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
    assert [*same.launches] == ["ortmodule"]
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
