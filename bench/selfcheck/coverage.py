"""How often does the 95 % interval contain the truth? Simulated comparisons on recorded and on made noise.

`make coverage` writes coverage.csv and estimators.csv in results/selftest/. Recorded are log ratios of paired
rounds whose truth is known, launch by launch: noise.csv, on which the estimator was chosen, and rounds.csv,
which `make selftest` leaves behind and which had no say in it. Made is what is harder than that.

`--record FILE` first takes noise.csv anew from the results file of an A/A comparison, such as that of
`python -m bench backend=[pytorch,pytorch_again] measure.launches=20 measure.rounds=16`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from bench.analysis import intervals, selftest
from bench.config.compose import compose
from bench.config.measure import Measure
from bench.results import csv_files
from bench.results.atomic import write_atomically

Floats = npt.NDArray[np.float64]
Random = np.random.Generator

FOLDER = Path("results/selftest")
RECORDED = {"recorded, default workload": "noise.csv", "recorded by the self-test": "rounds.csv"}


def pairwise_median(values: Floats) -> float:
    """Hodges and Lehmann's estimator: the median of the means of all pairs, a value with itself included."""
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2))


MIDDLES: dict[str, Callable[[Floats], float]] = {
    "mean": lambda values: float(values.mean()),
    "median": lambda values: float(np.median(values)),
    "midmean": intervals.midmean,
    "Hodges-Lehmann": pairwise_median,
}
"""What a launch's rounds could be summarised by."""

PRESETS = ("quick", "default", "thorough")
COMPARISONS = 4000

BLOCK = 0.04
"""Standard deviation of a round's log ratio in the made noise; about that of a shared two-core machine."""


@dataclass(frozen=True)
class Noise:
    """Where the noise of a launch's rounds comes from.

    `launch` draws the log ratios of one launch, of shape (rounds,); their expectation is `centre`.
    """

    name: str
    launch: Callable[[Random, int], Floats]
    centre: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What many simulated comparisons came to. A line of coverage.csv."""

    noise: str
    middle: str
    preset: str
    launches: int
    rounds: int
    until: float | None  # half-width at which launches end; None: the preset's number of launches
    comparisons: int
    coverage: float  # share of the intervals that contain the truth
    half_width: float  # median
    mean_launches: float


def simulate(
    noise: Noise,
    preset: str,
    measure: Measure,
    until: float | None,
    comparisons: int,
    random: Random,
    middle: str = "midmean",
) -> Coverage:
    """Compare `comparisons` times under this noise, with the preset's launches and rounds."""
    estimate = partial(intervals.speedup_of_launches, stopped=until is not None, middle=MIDDLES[middle])
    most = measure.launches if until is None else max(measure.launches, measure.most_launches)
    hits, widths, counts = [], [], []
    for _ in range(comparisons):
        launches = [noise.launch(random, measure.rounds) for _ in range(measure.launches)]
        found = estimate(launches)
        while until is not None and intervals.half_width(found) > until and len(launches) < most:
            launches.append(noise.launch(random, measure.rounds))
            found = estimate(launches)
        assert found.low is not None, "there are several launches"
        assert found.high is not None, "there are several launches"
        hits.append(found.low <= np.exp(noise.centre) <= found.high)
        widths.append(intervals.half_width(found))
        counts.append(len(launches))
    return Coverage(
        noise=noise.name,
        middle=middle,
        preset=preset,
        launches=measure.launches,
        rounds=measure.rounds,
        until=until,
        comparisons=comparisons,
        coverage=float(np.mean(hits)),
        half_width=float(np.median(widths)),
        mean_launches=float(np.mean(counts)),
    )


# Recorded noise


def recorded(name: str, rounds: int, folder: Path = FOLDER) -> Noise:
    """One of `RECORDED`, as `drawn_from` draws it."""
    return drawn_from(pd.read_csv(folder / RECORDED[name]), rounds, name)


def drawn_from(table: pd.DataFrame, rounds: int, name: str = "recorded") -> Noise:
    """Launches drawn with replacement from those that have so many rounds, a stretch of successive ones."""
    groups = table.sort_values("round").groupby(["case", "number", "backend", "launch"])["noise"]
    pool = [launch.to_numpy(float) for _, launch in groups if len(launch) >= rounds]
    if not pool:
        raise ValueError(f"no recorded launch has {rounds} rounds")

    def launch(random: Random, rounds: int) -> Floats:
        drawn = pool[random.integers(len(pool))]
        start = random.integers(len(drawn) - rounds + 1)
        return drawn[start : start + rounds]

    return Noise(f"{name} ({len(pool)} launches)", launch)


# Made noise


def made() -> Iterator[Noise]:
    """White noise, and what a machine can do that is worse."""
    yield Noise("white", lambda random, rounds: random.normal(0, BLOCK, rounds))
    for share in (0.4, 0.8, 2.0):
        yield Noise(f"launches differ by {share} of a block's spread", _launch_effects(share))
    for correlation in (0.3, 0.7):
        yield Noise(f"rounds correlated, {correlation}", _correlated(correlation))
    yield Noise("heavy tails (Student, 3 degrees)", _heavy)
    yield Noise("one block in ten a quarter slower, either side", _spikes)
    yield Noise("drift of 5 % within each launch, either way", _drift)
    yield Noise("one launch in four 5 % slower", _two_kinds_of_launches, centre=-0.05 / 4)
    yield Noise("launch effects, correlated rounds and heavy tails", _everything)


def _launch_effects(share: float) -> Callable[[Random, int], Floats]:
    return lambda random, rounds: random.normal(0, share * BLOCK) + random.normal(0, BLOCK, rounds)


def _correlated(correlation: float, tails: bool = False) -> Callable[[Random, int], Floats]:
    def launch(random: Random, rounds: int) -> Floats:
        fresh = _heavy(random, rounds) if tails else random.normal(0, BLOCK, rounds)
        values = np.empty(rounds)
        values[0] = fresh[0]
        for number in range(1, rounds):
            values[number] = correlation * values[number - 1] + np.sqrt(1 - correlation**2) * fresh[number]
        return values

    return launch


def _heavy(random: Random, rounds: int) -> Floats:
    return np.asarray(random.standard_t(3, rounds) * BLOCK / np.sqrt(3))


def _spikes(random: Random, rounds: int) -> Floats:
    slow = (random.random((2, rounds)) < 0.1) * 0.25
    return np.asarray(random.normal(0, BLOCK / 2, rounds) + slow[0] - slow[1])


def _drift(random: Random, rounds: int) -> Floats:
    way = random.choice([-1, 1])
    return np.asarray(way * np.linspace(-0.025, 0.025, rounds) + random.normal(0, BLOCK, rounds))


def _two_kinds_of_launches(random: Random, rounds: int) -> Floats:
    return -0.05 * (random.random() < 0.25) + random.normal(0, BLOCK / 2, rounds)


def _everything(random: Random, rounds: int) -> Floats:
    return random.standard_t(3) * 0.8 * BLOCK / np.sqrt(3) + _correlated(0.3, tails=True)(random, rounds)


# The table


def table(comparisons: int, seed: int = 0) -> pd.DataFrame:
    """Every kind of noise under every preset, as it is and stopped at a half-width."""
    random = np.random.default_rng(seed)
    lines = []
    for preset in PRESETS:
        measure = compose([f"measure={preset}"]).measure
        for noise in (*(recorded(name, measure.rounds) for name in RECORDED), *made()):
            plain = simulate(noise, preset, measure, None, comparisons, random)
            # A goal that is out of reach of about half of the comparisons without further launches.
            goal = round(0.8 * plain.half_width, 4)
            stopped = simulate(noise, preset, measure, goal, comparisons // 4, random)
            lines += [plain, stopped]
    return pd.DataFrame(lines)


def estimators(comparisons: int, seed: int = 1) -> pd.DataFrame:
    """Every middle of `MIDDLES` under every kind of noise, on the same draws."""
    lines = []
    for preset in PRESETS:
        measure = compose([f"measure={preset}"]).measure
        for noise in (*(recorded(name, measure.rounds) for name in RECORDED), *made()):
            for middle in MIDDLES:
                random = np.random.default_rng(seed)
                lines.append(simulate(noise, preset, measure, None, comparisons, random, middle))
    return pd.DataFrame(lines)


def main(arguments: list[str] | None = None) -> int:
    """Simulate, write the table, print it."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.selfcheck.coverage",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--record", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.record:
        noise = selftest.noise_table(csv_files.read(options.record), "recorded", 1)
        write_atomically(FOLDER / "noise.csv", noise.to_csv(index=False, float_format="%.6g"))
    for name, found in (("estimators", estimators(COMPARISONS // 4)), ("coverage", table(COMPARISONS))):
        write_atomically(FOLDER / f"{name}.csv", found.to_csv(index=False, float_format="%.5g"))
        print(found.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
