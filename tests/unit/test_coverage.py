"""Does the 95 % interval contain the truth in 95 % of comparisons? Simulated."""

from functools import cache

import numpy as np
import pytest

from bench.config.compose import compose
from bench.config.measure import Measure
from bench.statistics import intervals
from tests.support.coverage import (
    RECORDINGS,
    TWO_KINDS_CENTRE,
    Draw,
    correlated_rounds,
    launch_effects,
    recorded,
    simulate,
    two_kinds_of_launches,
    white,
)

pytestmark = pytest.mark.once

PRESETS = ("quick", "default", "thorough")

COMPARISONS = 2000  # the share of hits is then known to about half a per cent


@cache
def preset(name: str, schedule: str = "interleaved") -> Measure:
    return compose([f"measure={name}", f"measure.schedule={schedule}", "device=cpu"]).measure


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("name", PRESETS)
def test_on_recorded_noise_at_least_93_per_cent_of_intervals_contain_the_truth(
    name: str, recording: str
) -> None:
    measure = preset(name, RECORDINGS[recording])
    assert simulate(recorded(recording, measure.rounds), measure, COMPARISONS).coverage >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("name", PRESETS)
def test_the_stopping_rule_does_not_spoil_it(name: str, recording: str) -> None:
    measure = preset(name, RECORDINGS[recording])
    noise = recorded(recording, measure.rounds)
    plain = simulate(noise, measure, 500)
    for share in (0.9, 0.7, 0.5):
        assert simulate(noise, measure, 500, target_half_width=share * plain.half_width).coverage >= 0.93


@pytest.mark.parametrize("noise", [white, launch_effects, correlated_rounds])
def test_neither_launch_effects_nor_correlated_rounds_spoil_it(noise: Draw) -> None:
    assert simulate(noise, preset("default"), COMPARISONS).coverage >= 0.93


def test_four_launches_are_too_few_where_one_in_four_is_slower() -> None:
    """The limit that docs/validation.md names."""
    quick, thorough = (
        simulate(two_kinds_of_launches, preset(name), COMPARISONS, centre=TWO_KINDS_CENTRE).coverage
        for name in ("quick", "thorough")
    )
    assert 0.7 < quick < 0.77
    assert 0.86 < thorough < 0.92


def test_an_interval_over_blocks_would_be_wrong_where_launches_differ() -> None:
    """The simulation can fail: what the field does, a t-interval over all blocks, it finds out."""
    random = np.random.default_rng(0)
    hits = []
    for _ in range(1000):
        pooled = np.concatenate([launch_effects(random, 6) for _ in range(4)])
        found = intervals.speedup_of_launches([pooled])
        assert found.low is not None
        assert found.high is not None
        hits.append(found.low <= 1 <= found.high)
    assert np.mean(hits) < 0.85


def test_a_stopped_comparison_needs_fewer_or_more_launches_as_its_goal_says() -> None:
    measure = preset("default")
    easy, hard = (simulate(white, measure, 50, target_half_width=goal) for goal in (1.0, 0.012))
    assert easy.mean_launches == measure.launches
    assert measure.launches < hard.mean_launches < measure.max_launches
    assert hard.half_width <= 0.012
