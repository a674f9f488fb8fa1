"""Noise of simulated comparisons: drawn from recorded rounds, or made to be harder than those."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.statistics.intervals import Floats

Random = np.random.Generator

BLOCK_SPREAD = 0.04
"""Standard deviation of a round's log ratio in artificial noise; about that of a shared two-core machine."""


@dataclass(frozen=True)
class Noise:
    """The log ratios of the rounds of a launch, when two backends are equally fast."""

    name: str  # stands in the column `noise`
    # given a number of rounds, the log ratios of one launch, of shape (rounds,)
    draw_launch: Callable[[Random, int], Floats]
    centre: float = 0.0  # their expectation


def recorded_noise(table: pd.DataFrame, rounds: int, name: str = "recorded") -> Noise:
    """Launches drawn with replacement from recorded ones; of a longer launch, successive rounds.

    Args:
        table: columns `case`, `number`, `backend`, `launch`, `round` and `noise`, which is the log ratio.
        rounds: the least that a recorded launch must have to be drawn from.
        name: of the recording.

    Raises:
        ValueError: no recorded launch has so many rounds.
    """
    groups = table.sort_values("round").groupby(["case", "number", "backend", "launch"])["noise"]
    launches = [launch.to_numpy(float) for _, launch in groups if len(launch) >= rounds]
    if not launches:
        raise ValueError(f"no recorded launch has {rounds} rounds")

    def draw_launch(random: Random, rounds: int) -> Floats:
        drawn = launches[random.integers(len(launches))]
        start = random.integers(len(drawn) - rounds + 1)
        return drawn[start : start + rounds]

    return Noise(f"{name} ({len(launches)} launches)", draw_launch)


def artificial_noise() -> Iterator[Noise]:
    """White noise, and what a machine can do that is worse."""
    yield Noise("white", lambda random, rounds: random.normal(0, BLOCK_SPREAD, rounds))
    for share in (0.4, 0.8, 2.0):
        yield Noise(f"launches differ by {share} of a block's spread", _launch_effects(share))
    for correlation in (0.3, 0.7):
        yield Noise(f"rounds correlated, {correlation}", _correlated_rounds(correlation))
    yield Noise("heavy tails (Student, 3 degrees)", _heavy_tails)
    yield Noise("one block in ten a quarter slower, either side", _slow_blocks)
    yield Noise("drift of 5 % within each launch, either way", _drift)
    yield Noise("one launch in four 5 % slower", _two_kinds_of_launches, centre=-0.05 / 4)
    yield Noise("launch effects, correlated rounds and heavy tails", _everything)


def _launch_effects(share: float) -> Callable[[Random, int], Floats]:
    return lambda random, rounds: (
        random.normal(0, share * BLOCK_SPREAD) + random.normal(0, BLOCK_SPREAD, rounds)
    )


def _correlated_rounds(correlation: float, heavy_tails: bool = False) -> Callable[[Random, int], Floats]:
    """An autoregressive process of order 1, every value with the same spread.

    Written out, since scipy.signal, whose lfilter does the same, takes a second to import.
    """

    def draw_launch(random: Random, rounds: int) -> Floats:
        fresh = _heavy_tails(random, rounds) if heavy_tails else random.normal(0, BLOCK_SPREAD, rounds)
        values = np.empty(rounds)
        values[0] = fresh[0]
        for number in range(1, rounds):
            values[number] = correlation * values[number - 1] + np.sqrt(1 - correlation**2) * fresh[number]
        return values

    return draw_launch


def _heavy_tails(random: Random, rounds: int) -> Floats:
    return np.asarray(random.standard_t(3, rounds) * BLOCK_SPREAD / np.sqrt(3))


def _slow_blocks(random: Random, rounds: int) -> Floats:
    slow = (random.random((2, rounds)) < 0.1) * 0.25
    return np.asarray(random.normal(0, BLOCK_SPREAD / 2, rounds) + slow[0] - slow[1])


def _drift(random: Random, rounds: int) -> Floats:
    way = random.choice([-1, 1])
    return np.asarray(way * np.linspace(-0.025, 0.025, rounds) + random.normal(0, BLOCK_SPREAD, rounds))


def _two_kinds_of_launches(random: Random, rounds: int) -> Floats:
    return -0.05 * (random.random() < 0.25) + random.normal(0, BLOCK_SPREAD / 2, rounds)


def _everything(random: Random, rounds: int) -> Floats:
    launch_effect = random.standard_t(3) * 0.8 * BLOCK_SPREAD / np.sqrt(3)
    return launch_effect + _correlated_rounds(0.3, heavy_tails=True)(random, rounds)
