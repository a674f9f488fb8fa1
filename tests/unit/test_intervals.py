"""Speed-ups and their intervals against scipy, exact figures and simulated truths."""

import math

import numpy as np
import pytest
import scipy.stats

from bench.statistics import intervals
from bench.statistics.intervals import Floats, Speedup

T = {1: 12.706204736432095, 2: 4.302652729911275, 3: 3.182446305284263}  # 97.5 % quantiles


def logs(values: dict[tuple[int, int], float]) -> list[Floats]:
    """Values by launch and round, an array for each launch."""
    numbers = sorted({launch for launch, _ in values})
    return [np.array([value for (launch, _), value in values.items() if launch == n]) for n in numbers]


def known_speedup(low: float | None, high: float | None) -> Speedup:
    return Speedup(ratio=1.0, low=low, high=high, launches=3, rounds=15)


def estimate(values: dict[tuple[int, int], float]) -> Speedup:
    return intervals.speedup_of_launches(logs(values))


def test_three_launches_give_a_t_interval_over_their_means_with_two_degrees_of_freedom() -> None:
    found = estimate({(1, 1): 0.0, (1, 2): 0.2, (2, 1): 0.1, (2, 2): 0.3, (3, 1): 0.2, (3, 2): 0.4})
    half = T[2] * 0.1 / math.sqrt(3)  # launch means 0.1, 0.2, 0.3
    assert found is not None
    assert found.ratio == pytest.approx(math.exp(0.2), rel=1e-12)
    assert (found.low, found.high) == pytest.approx((math.exp(0.2 - half), math.exp(0.2 + half)))
    assert (found.launches, found.rounds, found.note) == (3, 6, "")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], 3.0),
        ([1.0, 3.0], 2.0),
        ([0.0, 1.0, 8.0], (0.25 * 0 + 1 + 0.25 * 8) / 1.5),
        ([100.0, 1.0, 3.0, -50.0], 2.0),
        ([9.0, 0.0, 4.0, 2.0, 3.0], (0.75 * 2 + 3 + 0.75 * 4) / 2.5),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 99.0], (0.5 * 1 + 2 + 3 + 0.5 * 4) / 3),
        ([*range(4), *range(10, 18), *[1e6] * 4], 13.5),
    ],
)
def test_the_midmean_is_the_mean_of_the_middle_half(values: list[float], expected: float) -> None:
    assert intervals.midmean(np.array(values, float)) == pytest.approx(expected)


def test_a_launch_with_one_disturbed_round_counts_as_if_it_had_not_been() -> None:
    calm = estimate({(n, r): 0.1 for n in (1, 2) for r in (1, 2, 3, 4)})
    disturbed = estimate({(n, r): 0.9 if (n, r) == (1, 2) else 0.1 for n in (1, 2) for r in (1, 2, 3, 4)})
    assert disturbed == calm


def test_launches_weigh_the_same_however_many_rounds_they_have() -> None:
    found = estimate({(1, 1): 0.1, (2, 1): 0.3, (2, 2): 0.3, (2, 3): 0.3})
    assert found.ratio == pytest.approx(math.exp(0.2), rel=1e-12)


def test_a_single_launch_gets_an_interval_over_its_rounds_and_says_what_is_missing() -> None:
    values = [0.1, 0.2, 0.3, 0.2]
    found = estimate({(1, n): value for n, value in enumerate(values, 1)})
    half = T[3] * np.std(values, ddof=1) / 2
    assert (found.low, found.high) == pytest.approx((math.exp(0.2 - half), math.exp(0.2 + half)))
    assert "the variation between launches is not in the interval" in found.note
    assert found.low is not None
    assert found.low > 1
    assert intervals.verdict(found, 0.02) == "inconclusive"


def test_one_round_alone_has_no_interval_and_is_inconclusive() -> None:
    found = estimate({(1, 1): 0.7})
    assert (found.low, found.high, found.note) == (None, None, "one round: no interval")
    assert intervals.verdict(found, 0.02) == "inconclusive"


def test_a_run_without_a_launch_is_not_compared() -> None:
    assert intervals.speedup_across_runs([], logs({(1, 1): 0.7})) is None


def test_launches_that_are_far_apart_give_an_infinite_interval_and_no_error() -> None:
    found = estimate({(1, 1): 0.0, (2, 1): 200.0})
    assert (found.low, found.high) == (0.0, math.inf)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.05, 1.10, "faster"),
        (1.001, 1.10, "faster"),
        (0.90, 0.95, "slower"),
        (0.90, 0.999, "slower"),
        (0.99, 1.01, "same"),
        (1.005, 1.015, "same"),  # excludes 1, yet inside the margin
        (0.985, 0.995, "same"),
        (0.98, 1.02, "same"),
        (0.97, 1.01, "inconclusive"),
        (0.99, 1.03, "inconclusive"),
        (0.5, 2.0, "inconclusive"),
        (None, None, "inconclusive"),
    ],
)
def test_the_verdict_follows_the_interval_and_the_margin(
    low: float | None, high: float | None, expected: str
) -> None:
    assert intervals.verdict(known_speedup(low, high), 0.02) == expected


def test_two_runs_are_compared_by_welchs_interval_over_launch_means() -> None:
    base = logs({(1, 1): 0.0, (1, 2): 0.0, (2, 1): 0.0, (2, 2): 0.2})  # launch means 0, 0.1
    new = logs({(1, 1): 0.2, (2, 1): 0.3, (3, 1): 0.4})
    found = intervals.speedup_across_runs(base, new)
    test = scipy.stats.ttest_ind([0.2, 0.3, 0.4], [0.0, 0.1], equal_var=False)
    interval = test.confidence_interval(0.95)
    assert found is not None
    assert found.ratio == pytest.approx(math.exp(0.25), rel=1e-12)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(interval)), rel=1e-9)
    assert found.launches == 2


def test_a_run_that_ended_when_it_was_narrow_is_compared_with_the_larger_quantile() -> None:
    base, new = logs({(1, 1): 0.0, (2, 1): 0.1}), logs({(1, 1): 0.2, (2, 1): 0.3})
    planned, stopped = (
        intervals.speedup_across_runs(base, new),
        intervals.speedup_across_runs(base, new, stopped_by_width=True),
    )
    assert planned is not None
    assert stopped is not None
    widths = [math.log(one.high / one.low) for one in (planned, stopped)]  # type: ignore[operator]
    assert widths[1] / widths[0] == pytest.approx(scipy.stats.t.ppf(0.99, 2) / scipy.stats.t.ppf(0.975, 2))


def test_a_run_with_one_launch_has_no_interval_across_runs() -> None:
    found = intervals.speedup_across_runs(logs({(1, 1): 0.0, (1, 2): 0.1}), logs({(1, 1): 0.2, (2, 1): 0.3}))
    assert found is not None
    assert (found.low, found.high) == (None, None)
    assert found.note == "single launch on one side: no interval across runs"


def test_runs_without_any_variation_have_an_interval_of_no_width() -> None:
    same = logs({(1, 1): 0.5, (2, 1): 0.5})
    found = intervals.speedup_across_runs(same, same)
    assert found is not None
    assert (found.ratio, found.low, found.high) == (1.0, 1.0, 1.0)
