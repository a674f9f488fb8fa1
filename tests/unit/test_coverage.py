"""Does the 95 % interval contain the truth in 95 % of comparisons? Simulated, as `make coverage` does."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from bench.config.measure import Measure
from bench.selfcheck import coverage
from bench.selfcheck.coverage import (
    RECORDINGS,
    Noise,
    artificial_noise,
    read_recording,
    recorded_noise,
    simulate,
)
from bench.statistics import intervals

pytestmark = pytest.mark.once


MADE = {noise.name: noise for noise in artificial_noise()}

COMPARISONS = 2000  # the share of hits is then known to about half a per cent


@cache
def preset(name: str, resident: str = "all") -> Measure:
    return coverage.preset_of(name, resident)


def covered(
    noise: Noise,
    name: str,
    until: float | None = None,
    comparisons: int = COMPARISONS,
    resident: str = "all",
) -> float:
    random = np.random.default_rng(20261121)
    return simulate(noise, name, preset(name, resident), until, comparisons, random).coverage


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("name", coverage.PRESETS)
def test_on_recorded_noise_at_least_93_per_cent_of_intervals_contain_the_truth(
    name: str, recording: str
) -> None:
    resident = RECORDINGS[recording][1]
    noise = read_recording(recording, preset(name, resident).rounds)
    assert covered(noise, name, resident=resident) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("name", coverage.PRESETS)
def test_the_stopping_rule_does_not_spoil_it(name: str, recording: str) -> None:
    resident = RECORDINGS[recording][1]
    measure = preset(name, resident)
    noise = read_recording(recording, measure.rounds)
    random = np.random.default_rng(20261121)
    plain = simulate(noise, name, measure, None, 500, random)
    for share in (0.9, 0.7, 0.5):
        assert covered(noise, name, share * plain.half_width, 500, resident) >= 0.93


@pytest.mark.parametrize(
    "name", ["white", "launches differ by 0.8 of a block's spread", "rounds correlated, 0.7"]
)
def test_neither_launch_effects_nor_correlated_rounds_spoil_it(name: str) -> None:
    assert covered(MADE[name], "default") >= 0.93


def test_an_interval_over_blocks_would_be_wrong_where_launches_differ() -> None:
    """The simulation can fail: what the field does, a t-interval over all blocks, it finds out."""
    random = np.random.default_rng(0)
    noise = MADE["launches differ by 0.8 of a block's spread"]
    hits = []
    for _ in range(1000):
        pooled = np.concatenate([noise.draw_launch(random, 6) for _ in range(4)])
        found = intervals.speedup_of_launches([pooled])
        assert found.low is not None
        assert found.high is not None
        hits.append(found.low <= 1 <= found.high)
    assert np.mean(hits) < 0.85


@pytest.mark.slow
def test_the_made_noise_has_the_centre_that_it_claims() -> None:
    random = np.random.default_rng(1)
    for noise in MADE.values():
        means = [noise.draw_launch(random, 6).mean() for _ in range(20_000)]
        error = float(np.std(means)) / np.sqrt(len(means))
        assert abs(np.mean(means) - noise.centre) < 5 * error, noise.name


def test_recorded_noise_is_drawn_in_stretches_of_one_launch() -> None:
    lines = [
        ("a", 1, "b", launch, round_, 100 * launch + round_) for launch in (1, 2) for round_ in (1, 2, 3)
    ]
    table = pd.DataFrame(lines, columns=["case", "number", "backend", "launch", "round", "noise"])
    random = np.random.default_rng(2)
    noise = recorded_noise(table, 2)
    drawn = {tuple(noise.draw_launch(random, 2)) for _ in range(100)}
    assert drawn == {(101, 102), (102, 103), (201, 202), (202, 203)}
    with pytest.raises(ValueError, match="no recorded launch has 4 rounds"):
        recorded_noise(table, 4)


def test_a_stopped_comparison_needs_fewer_or_more_launches_as_its_goal_says() -> None:
    random = np.random.default_rng(3)
    measure = preset("default")
    easy = simulate(MADE["white"], "default", measure, 1.0, 50, random)
    hard = simulate(MADE["white"], "default", measure, 0.012, 50, random)
    assert easy.mean_launches == measure.launches
    assert measure.launches < hard.mean_launches < measure.most_launches
    assert hard.half_width <= 0.012


def test_the_midmean_was_worth_choosing() -> None:
    """On the noise that it was chosen on it needs the narrower interval; on normal noise it costs little."""
    widths = {
        (noise.name, middle): simulate(
            noise, "default", preset("default"), None, 1000, np.random.default_rng(4), middle
        ).half_width
        for noise in (read_recording("recorded, default workload", 5), MADE["white"])
        for middle in ("mean", "midmean")
    }
    assert widths["white", "midmean"] < 1.15 * widths["white", "mean"]
    (name,) = {noise for noise, _ in widths} - {"white"}
    assert widths[name, "midmean"] < 0.9 * widths[name, "mean"]
