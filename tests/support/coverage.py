"""Simulated comparisons, whose truth is known: how often does the 95 % interval contain it?"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from bench.config.measure import Measure
from bench.results.machines import list_study
from bench.statistics import intervals
from bench.statistics.intervals import Floats
from tests.support.git import COMMITTED

Random = np.random.Generator
Draw = Callable[[Random, int], Floats]
"""Given a number of rounds, the log ratios of one launch of two equally fast backends, of shape (rounds,)."""

BLOCK_SPREAD = 0.04
"""Standard deviation of a round's log ratio in artificial noise; about that of a shared two-core machine."""

TWO_KINDS_CENTRE = -0.05 / 4  # the expectation of `two_kinds_of_launches`; that of all other noise is 0

RECORDINGS = {
    "recorded.noise.csv": "interleaved",  # on which the midmean was chosen
    "interleaved.rounds.csv": "interleaved",  # by the self-test
    "sequential.rounds.csv": "sequential",  # the same of groups that ran one after the other
}
"""Files in the study selftest, and the `measure.schedule` of what was recorded."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What many simulated comparisons came to."""

    coverage: float  # share of the intervals that contain the truth
    half_width: float  # median
    mean_launches: float


def simulate(
    draw: Draw,
    measure: Measure,
    comparisons: int,
    *,
    target_half_width: float | None = None,
    centre: float = 0.0,
) -> Coverage:
    """Simulate so many comparisons, with the launches and rounds of a preset, or stopped at a half-width."""
    random = np.random.default_rng(20261121)
    most = measure.launches if target_half_width is None else max(measure.launches, measure.max_launches)
    hits, widths, counts = [], [], []
    for _ in range(comparisons):
        middles = np.empty(most)
        for launch in range(most):
            middles[launch] = intervals.midmean(draw(random, measure.rounds))
            sample = middles[: launch + 1]
            if len(sample) < measure.launches:
                continue
            quantile = intervals.t_quantile(len(sample) - 1, stopped_by_width=target_half_width is not None)
            half = quantile * math.sqrt(intervals.squared_standard_error(sample))
            if target_half_width is not None and math.expm1(half) <= target_half_width:
                break
        hits.append(abs(sample.mean() - centre) <= half)
        widths.append(math.expm1(half))
        counts.append(len(sample))
    return Coverage(
        coverage=float(np.mean(hits)),
        half_width=float(np.median(widths)),
        mean_launches=float(np.mean(counts)),
    )


def recorded(file: str, rounds: int) -> Draw:
    """The noise of one of `RECORDINGS`, from launches of at least so many rounds."""
    folders = list_study(COMMITTED / "results", "selftest")
    path = next(folder / file for folder in folders if (folder / file).exists())
    return draw_from(pd.read_csv(path), rounds)


def draw_from(table: pd.DataFrame, rounds: int) -> Draw:
    """Launches drawn with replacement from recorded ones; of a longer launch, successive rounds."""
    groups = table.sort_values("round").groupby(["case", "number", "backend", "launch"])["noise"]
    launches = [launch.to_numpy(float) for _, launch in groups if len(launch) >= rounds]

    def draw(random: Random, rounds: int) -> Floats:
        drawn = launches[random.integers(len(launches))]
        start = random.integers(len(drawn) - rounds + 1)
        return drawn[start : start + rounds]

    return draw


def white(random: Random, rounds: int) -> Floats:
    """Rounds that have nothing to do with each other."""
    return random.normal(0, BLOCK_SPREAD, rounds)


def launch_effects(random: Random, rounds: int) -> Floats:
    """Launches differ by 0.8 of a block's spread."""
    return random.normal(0, 0.8 * BLOCK_SPREAD) + white(random, rounds)


def correlated_rounds(random: Random, rounds: int) -> Floats:
    """An autoregressive process of order 1, every value with the same spread."""
    correlation, fresh = 0.7, white(random, rounds)
    fresh[1:] *= np.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], fresh))


def two_kinds_of_launches(random: Random, rounds: int) -> Floats:
    """One launch in four is 5 % slower."""
    return -0.05 * (random.random() < 0.25) + random.normal(0, BLOCK_SPREAD / 2, rounds)
