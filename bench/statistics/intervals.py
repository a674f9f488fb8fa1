"""Speed-ups with their confidence intervals, from the log ratios of rounds: pure functions of arrays."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95

STOPPED_CONFIDENCE = 0.98
"""For the quantile of a comparison that ended because its interval was narrow. Stopped with the 95 % one,
intervals cover 89 to 93 % of the truths; with this one 95 to 98 % (tests/unit/test_coverage.py)."""

SINGLE_LAUNCH = "single launch: the variation between launches is not in the interval, so it has no verdict"
SINGLE_ROUND = "one round: no interval"


@dataclass(frozen=True, kw_only=True)
class Speedup:
    """A ratio of throughputs (above 1: faster) with its 95 % interval.

    `low` and `high` are None where no interval can be had; `note` then says why, and it also
    says what an interval leaves out. Across two files `launches` counts the side that has fewer.
    """

    ratio: float
    low: float | None
    high: float | None
    launches: int
    rounds: int
    note: str = ""

    @property
    def interval(self) -> str:
        """`[1.281, 1.369]`, or `no interval`."""
        if self.low is None or self.high is None:
            return "no interval"
        return f"[{self.low:.3f}, {self.high:.3f}]"

    def __str__(self) -> str:
        """The ratio with its sign, and the interval."""
        return f"{self.ratio:.3f}\N{MULTIPLICATION SIGN} {self.interval}"


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A mean with its 95 % interval, `value` ± `half`; without one, `half` is None."""

    value: float
    half: float | None

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.half is not None and abs(self.value) > self.half


def speedup_of_launches(launches: Sequence[Floats], *, stopped_by_width: bool = False) -> Speedup:
    """The speed-up with its interval from the log ratios of one or more launches, of shape (rounds,) each.

    The ratio is the geometric mean over launches of each launch's `midmean`. Launches are the independent
    sample, blocks within one are not, so the 95 % interval is Student's t over the launches' midmeans. One
    launch alone gets a t-interval over its rounds, and says so. Who looks until the interval is narrow
    favours samples that scatter too little: `stopped_by_width` gets a larger quantile.
    """
    middles, rounds = launch_midmeans(launches), sum(map(len, launches))
    several = len(middles) > 1
    sample = middles if several else launches[0]
    confidence = STOPPED_CONFIDENCE if stopped_by_width else CONFIDENCE
    half_log = mean_with_interval(sample, confidence=confidence).half
    note = "" if several else SINGLE_ROUND if half_log is None else SINGLE_LAUNCH
    return from_logs(float(middles.mean()), half_log, len(middles), rounds, note)


def mean_with_interval(sample: Floats, *, among: int = 1, confidence: float = CONFIDENCE) -> Amount:
    """The mean, by Student's t; without an interval for fewer than two values.

    With Bonferroni's correction for `among` intervals all of them together hold with that confidence
    (O. J. Dunn, Journal of the American Statistical Association 56 (1961), 52-64).
    """
    if len(sample) < 2:
        return Amount(value=float(sample.mean()), half=None)
    quantile = _student(len(sample) - 1, 1 - (1 - confidence) / (2 * among))
    return Amount(value=float(sample.mean()), half=quantile * math.sqrt(squared_standard_error(sample)))


def midmean(values: Floats) -> float:
    """The interquartile mean: of the sorted values a quarter is left out at either end.

    Where a quarter is no whole number, the value at the edge counts in part: the outer of 5 weigh
    0, 0.75, 1, 0.75, 0. Chosen by simulation on recorded rounds:
    rounds of a shared machine have outliers, which the plain mean pays for with wider intervals.
    """
    weights = _midmean_weights(len(values))
    return float((np.sort(values) * weights).sum() / weights.sum())


@cache
def _midmean_weights(count: int) -> Floats:
    """The weight of each of `count` sorted values in their midmean."""
    inner = np.arange(1, count + 1) - count / 4
    return np.asarray(np.clip(np.minimum(inner, inner[::-1]), 0, 1))


def speedup_across_runs(
    base: Sequence[Floats],
    new: Sequence[Floats],
    *,
    stopped_by_width: bool = False,
    between: tuple[float, float] = (0.0, math.inf),
) -> Speedup | None:
    """Ratio of `new` over `base`, logs from two files that were not measured together.

    Welch's interval over the launches' midmeans of either side (Biometrika 34 (1947), 28-35): nothing is
    paired. A side with one launch has no variance, so there is no interval. None if either side is empty.
    `between` is the variance of one host's logs among those of its kind, and its degrees of freedom, if the
    hosts are two.
    """
    if not base or not new:
        return None
    sides = [(-1.0, launch_midmeans(base)), (1.0, launch_midmeans(new))]
    speedup = combine_samples(sides, stopped_by_width, between=(2 * between[0], between[1]))
    note = "" if speedup.low is not None else "single launch on one side: no interval across runs"
    return replace(speedup, rounds=min(sum(map(len, side)) for side in (base, new)), note=note)


def combine_samples(
    samples: Sequence[tuple[float, Floats]],
    stopped_by_width: bool = False,
    between: tuple[float, float] = (0.0, math.inf),
) -> Speedup:
    """The weighted sum of the means of independent samples of logs, as a ratio with its 95 % interval.

    Welch and Satterthwaite's degrees of freedom (Biometrics Bulletin 2 (1946), 110-114). A sample of one
    value has no variance, so there is no interval. `between` comes on top of the samples' variance.
    """
    centre = sum(weight * float(values.mean()) for weight, values in samples)
    fewest = min(len(values) for _, values in samples)
    total_rounds = sum(len(values) for _, values in samples)
    if fewest < 2:
        return from_logs(centre, None, fewest, total_rounds, "single launch on one side: no interval")
    errors = [weight**2 * squared_standard_error(values) for weight, values in samples]
    total = sum(errors) + between[0]
    if total == 0:
        return from_logs(centre, 0.0, fewest, total_rounds)
    each = sum(e**2 / (len(v) - 1) for e, (_, v) in zip(errors, samples, strict=True))
    each += between[0] ** 2 / between[1]
    freedom = total**2 / each if each else math.inf
    return from_logs(centre, t_quantile(freedom, stopped_by_width) * math.sqrt(total), fewest, total_rounds)


def verdict(speedup: Speedup, margin: float) -> str:
    """`same`, `faster`, `slower` or `inconclusive`.

    `same` if the interval lies within 1 ± `margin` (a share, such as 0.02), else by the side of 1 that it
    lies on; `inconclusive` if it contains 1 or there is none. One launch has no verdict either: launches
    differ by more than its rounds show.
    """
    if speedup.low is None or speedup.high is None or speedup.launches < 2:
        return "inconclusive"
    if 1 - margin <= speedup.low and speedup.high <= 1 + margin:
        return "same"
    if speedup.low > 1:
        return "faster"
    return "slower" if speedup.high < 1 else "inconclusive"


def from_logs(centre: float, half_log: float | None, launches: int, rounds: int, note: str = "") -> Speedup:
    """A speed-up from a mean of logs and half of its interval's width, in logs; None: no interval."""
    low = high = None
    if half_log is not None:
        with np.errstate(over="ignore"):  # two far launches: an infinite end is the truth
            low, high = float(np.exp(centre - half_log)), float(np.exp(centre + half_log))
    return Speedup(ratio=math.exp(centre), low=low, high=high, launches=launches, rounds=rounds, note=note)


def t_quantile(freedom: float, stopped_by_width: bool = False) -> float:
    """Student's t beyond which an estimate is with 5 % on either side together, or with 2 %."""
    confidence = STOPPED_CONFIDENCE if stopped_by_width else CONFIDENCE
    return _student(freedom, (1 + confidence) / 2)


def _student(freedom: float, probability: float) -> float:
    # imported here, since this takes longer than all that `make compare` does where nothing has changed
    from scipy.special import stdtrit  # scipy.stats has the same and takes 1 s

    return float(stdtrit(freedom, probability))


def squared_standard_error(sample: Floats) -> float:
    """Squared standard error of the sample's mean."""
    return float(sample.var(ddof=1)) / len(sample)


def launch_midmeans(launches: Iterable[Floats]) -> Floats:
    """The midmean of each launch, shape (launches,)."""
    return np.array([midmean(launch) for launch in launches])


def half_width(speedup: Speedup) -> float:
    """Half of the interval's width, as a share: 0.01 for ± 1 %.

    Infinite without an interval that contains the variation between launches.
    """
    if not speedup.low or speedup.high is None or speedup.launches < 2:
        return math.inf
    return math.sqrt(speedup.high / speedup.low) - 1
