"""Dividing a speed-up: exact where the parts are known, and recomputed by hand where they are not."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from bench.results.records import Record
from bench.statistics.summary import summarise
from bench.studies.attribution import division as attribution
from tests.support.factories import comparison, failed
from tests.support.result_files import table_of_records

NAMES = {
    (): "pytorch",
    ("optimizer",): "pytorch_fused",
    ("sharding",): "pytorch_zero1",
    ("optimizer", "sharding"): "pytorch_fused_zero1",
    ("engine",): "ortmodule_adamw",
    ("optimizer", "engine"): "ortmodule",
    ("engine", "sharding"): "ortmodule_adamw_zero1",
    ("optimizer", "engine", "sharding"): "ortmodule_zero1",
}
EFFECTS = {"optimizer": 1.1, "engine": 1.25, "sharding": 0.9}


def factorial(together: float = 1.0, noise: float = 0.0) -> list[Record]:
    """Three launches of two rounds; `together`: what optimizer and engine gain on top if both are there."""
    random = np.random.default_rng(1)
    seconds = {}
    for factors, name in NAMES.items():
        ratio = math.prod(EFFECTS[factor] for factor in factors)
        ratio *= together if {"optimizer", "engine"} <= set(factors) else 1
        seconds[name] = [
            [2.0 / ratio * math.exp(random.normal(0, noise)) for _ in range(2)] for _ in range(3)
        ]
    return comparison(seconds)


def divided(records: list[Record], end: str = "ortmodule_zero1") -> attribution.Attribution:
    found = attribution.attribute(summarise(table_of_records(records)), end)
    assert found is not None
    return found


def test_independent_effects_come_out_as_they_are() -> None:
    found = divided(factorial())
    assert (found.start, found.end) == ("pytorch", "ortmodule_zero1")
    assert {part.factor: part.effect.ratio for part in found.parts} == pytest.approx(EFFECTS)
    for part in found.parts:
        assert part.lowest == pytest.approx(part.highest) == pytest.approx(EFFECTS[part.factor])
    changes = ["adamw → adamw_fused", "eager → ortmodule", "ddp → zero1"]
    assert [part.change for part in found.parts] == changes
    without_sharding = divided(factorial(), end="ortmodule")
    assert [part.change for part in without_sharding.parts] == changes[:2], "only the choices that differ"


def test_what_two_choices_gain_together_is_shared_by_halves() -> None:
    found = divided(factorial(together=1.21))
    effects = {part.factor: part.effect.ratio for part in found.parts}
    assert effects == pytest.approx({"optimizer": 1.1 * 1.1, "engine": 1.25 * 1.1, "sharding": 0.9})
    optimizer = found.parts[0]
    assert (optimizer.lowest, optimizer.highest) == pytest.approx((1.1, 1.1 * 1.21))


def test_the_parts_multiply_to_the_speed_up_of_the_table() -> None:
    records = factorial(together=1.05, noise=0.05)
    found = divided(records)
    (summary,) = [one for one in summarise(table_of_records(records)) if one.backend == "ortmodule_zero1"]
    assert summary.speedup is not None
    product = math.prod(part.effect.ratio for part in found.parts)
    assert product == pytest.approx(summary.speedup.ratio, rel=1e-12)
    assert found.total == summary.speedup


def test_a_launch_that_one_combination_lost_counts_neither_in_the_parts_nor_in_the_whole() -> None:
    records = factorial(noise=0.05)
    lost = next(one for one in records if (one.backend, one.launch) == ("pytorch_fused", 2))
    found = divided([one for one in records if one is not lost])
    assert found.total.launches == 2
    assert math.prod(part.effect.ratio for part in found.parts) == pytest.approx(found.total.ratio, rel=1e-12)


def test_ratio_and_interval_are_those_of_a_computation_by_hand() -> None:
    records = factorial(noise=0.03)
    table = table_of_records(records)
    logs = np.log(table.pivot_table(index=["launch", "round"], columns="backend", values="samples_per_s"))
    middles = logs.sub(logs["pytorch"], axis=0).groupby("launch").mean()  # the midmean of two is their mean
    shares = []
    for order in itertools.permutations(EFFECTS):
        place = order.index("engine")
        before = tuple(factor for factor in EFFECTS if factor in order[:place])
        after = tuple(factor for factor in EFFECTS if factor in order[: place + 1])
        shares.append(middles[NAMES[after]] - middles[NAMES[before]])
    engine = sum(shares) / 6
    half = scipy_stats.t.ppf(0.975, 2) * engine.std(ddof=1) / math.sqrt(3)
    found = divided(records).parts[1].effect
    assert found.ratio == pytest.approx(math.exp(engine.mean()))
    assert (found.low, found.high) == pytest.approx(
        (math.exp(engine.mean() - half), math.exp(engine.mean() + half))
    )


def test_without_all_combinations_nothing_is_divided() -> None:
    records = [one for one in factorial() if one.backend != "pytorch_fused_zero1"]
    assert attribution.attribute(summarise(table_of_records(records)), "ortmodule_zero1") is None
    records.append(failed("pytorch_fused_zero1", "crashed", "gone"))
    assert attribution.attribute(summarise(table_of_records(records)), "ortmodule_zero1") is None
