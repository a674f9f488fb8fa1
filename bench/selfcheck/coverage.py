"""`make coverage`: how often does the 95 % interval contain the truth? Simulated, so that the truth is known.

Writes simulated.coverage.csv and simulated.estimators.csv in results/<machine>/selftest/. The noise of the
simulated comparisons is drawn from recorded ones: recorded.noise.csv, on which the estimator was chosen, and
what `make selftest` leaves behind and which had no say in the choice: all.rounds.csv, and one.rounds.csv of
groups that run one by one. And it is made, harder than what was recorded.

`--record FILE` first takes recorded.noise.csv anew from the results file of an A/A comparison, such as that
of `python -m bench backend=[pytorch,pytorch_again] measure.launches=20 measure.rounds=16`.
"""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from bench.analysis import selftest
from bench.closing import command_parser
from bench.config.compose import compose
from bench.config.measure import Measure
from bench.errors import UserError
from bench.results import csv_files
from bench.results.atomic import write_atomically
from bench.results.machines import list_study
from bench.statistics import intervals
from bench.statistics.intervals import Floats

Random = np.random.Generator

BLOCK_SPREAD = 0.04
"""Standard deviation of a round's log ratio in artificial noise; about that of a shared two-core machine."""

RESULTS = Path("results")


RECORDINGS = {
    "recorded, default workload": ("recorded.noise.csv", "all"),
    "recorded by the self-test": ("all.rounds.csv", "all"),
    "recorded by the self-test, groups one after the other": ("one.rounds.csv", "one"),
}
"""By the name in the column `noise`: the file in the study selftest of the machine that has it, and the
`measure.resident` of what was recorded; with `one` a preset has more launches."""

PRESETS = ("quick", "default", "thorough")
COMPARISONS = 4000


def pairwise_median(values: Floats) -> float:
    """Hodges and Lehmann's estimator: the median of the means of all pairs, a value with itself included.

    Written out, since scipy has it in none of its public functions.
    """
    first, second = np.triu_indices(len(values))
    return float(np.median((values[first] + values[second]) / 2))


ESTIMATORS: dict[str, Callable[[Floats], float]] = {
    "mean": lambda values: float(values.mean()),
    "median": lambda values: float(np.median(values)),
    "midmean": intervals.midmean,
    "Hodges-Lehmann": pairwise_median,
}
"""What the rounds of a launch could be summarised by; in the column `middle`."""


@dataclass(frozen=True)
class Noise:
    """The log ratios of the rounds of a launch, when two backends are equally fast."""

    name: str  # stands in the column `noise`
    # given a number of rounds, the log ratios of one launch, of shape (rounds,)
    draw_launch: Callable[[Random, int], Floats]
    centre: float = 0.0  # their expectation


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What many simulated comparisons came to: a line of coverage.csv."""

    noise: str
    middle: str  # of ESTIMATORS
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
    estimator: str = "midmean",
) -> Coverage:
    """Simulate so many comparisons under this noise, with the launches and rounds of the preset."""
    assert measure.launches > 1, "one launch has no interval"
    most = measure.launches if until is None else max(measure.launches, measure.most_launches)
    average, hits, widths, counts = ESTIMATORS[estimator], [], [], []
    for _ in range(comparisons):
        middles = np.empty(most)
        for launch in range(most):
            middles[launch] = average(noise.draw_launch(random, measure.rounds))
            sample = middles[: launch + 1]
            if len(sample) < measure.launches:
                continue
            half = intervals.half_interval(sample, stopped_by_width=until is not None)
            if until is not None and math.expm1(half) <= until:
                break
        hits.append(abs(sample.mean() - noise.centre) <= half)
        widths.append(math.expm1(half))
        counts.append(len(sample))
    return Coverage(
        noise=noise.name,
        middle=estimator,
        preset=preset,
        launches=measure.launches,
        rounds=measure.rounds,
        until=until,
        comparisons=comparisons,
        coverage=float(np.mean(hits)),
        half_width=float(np.median(widths)),
        mean_launches=float(np.mean(counts)),
    )


def read_recording(name: str, rounds: int) -> Noise:
    """The noise of one of `RECORDINGS`, from launches of at least so many rounds.

    Raises:
        UserError: no machine has it.
    """
    file, _ = RECORDINGS[name]
    for folder in list_study(RESULTS, "selftest"):
        if (folder / file).exists():
            return recorded_noise(pd.read_csv(folder / file), rounds, name)
    raise UserError(f"no machine in {RESULTS} has selftest/{file}", "run `make selftest` first")


def preset_of(preset: str, resident: str = "all") -> Measure:
    """What a preset sets."""
    return compose([f"measure={preset}", f"measure.resident={resident}", "device=cpu"]).measure


def every_noise() -> Iterator[tuple[str, Measure, Noise]]:
    """Every kind of noise under every preset: the preset's name, what it sets, the noise."""
    for preset in PRESETS:
        for name, (_, resident) in RECORDINGS.items():
            measure = preset_of(preset, resident)
            yield preset, measure, read_recording(name, measure.rounds)
        for noise in artificial_noise():
            yield preset, preset_of(preset), noise


def simulate_coverage(comparisons: int) -> pd.DataFrame:
    """The table coverage.csv: with the preset's number of launches, and stopped at a half-width."""
    random = np.random.default_rng(0)
    lines = []
    for preset, measure, noise in every_noise():
        plain = simulate(noise, preset, measure, None, comparisons, random)
        # A goal that is out of reach of about half of the comparisons without further launches.
        goal = round(0.8 * plain.half_width, 4)
        lines += [plain, simulate(noise, preset, measure, goal, comparisons // 4, random)]
    return pd.DataFrame(lines)


def compare_estimators(comparisons: int) -> pd.DataFrame:
    """The table estimators.csv: every one of `ESTIMATORS` on the same draws."""
    lines = [
        simulate(noise, preset, measure, None, comparisons, np.random.default_rng(1), estimator)
        for preset, measure, noise in every_noise()
        for estimator in ESTIMATORS
    ]
    return pd.DataFrame(lines)


# Noise


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
    """An autoregressive process of order 1, every value with the same spread."""

    def draw_launch(random: Random, rounds: int) -> Floats:
        fresh = _heavy_tails(random, rounds) if heavy_tails else random.normal(0, BLOCK_SPREAD, rounds)
        fresh[1:] *= np.sqrt(1 - correlation**2)
        return np.asarray(lfilter([1.0], [1.0, -correlation], fresh))

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


def main(arguments: list[str] | None = None) -> int:
    """Simulate, write the tables and print them."""
    parser = command_parser("bench.selfcheck.coverage", __doc__)
    parser.add_argument("--record", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    folder = Path(compose(["study=selftest"]).results_dir)
    if options.record:
        noise = selftest.noise_table(csv_files.read(options.record), "recorded", 1)
        write_atomically(folder / "recorded.noise.csv", noise.to_csv(index=False, float_format="%.6g"))
    for name, table in (
        ("estimators", compare_estimators(COMPARISONS // 4)),
        ("coverage", simulate_coverage(COMPARISONS)),
    ):
        write_atomically(folder / f"simulated.{name}.csv", table.to_csv(index=False, float_format="%.5g"))
        print(table.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
