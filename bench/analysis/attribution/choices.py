"""Which choice made the difference: a speed-up divided among the choices in which two backends differ.

A backend is a set of choices (`FACTORS`). Where all combinations between two backends were measured, the
change that a choice makes can be taken at every place in the order of changes, and these disagree if the
choices interact. The mean over all orders (`shapley.py`) depends on none, and the parts multiply to the
whole. Everything is computed on logarithms.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.analysis.attribution.shapley import Subset, marginal, shapley_values, subsets_of
from bench.results import arithmetic
from bench.statistics.comparability import CHOICES
from bench.statistics.intervals import Speedup, midmean, speedup_of_launches
from bench.statistics.summary import BackendSummary

FACTORS = ("optimizer", *(choice for choice in CHOICES if choice != "optimizer"))
"""The choices of a backend, in the order in which a waterfall shows them: the cheapest change first."""


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one choice contributes."""

    factor: str  # the choice, one of `FACTORS` or a setting
    change: str  # what it goes from and to, such as `eager → ortmodule`
    effect: Speedup  # its mean over all orders, as a ratio of throughputs with its interval
    lowest: float  # its effect in the order where it is smallest, a ratio
    highest: float  # in the order where it is largest


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """A speed-up and its parts, whose ratios multiply to it."""

    start: str
    end: str
    total: Speedup
    parts: tuple[Contribution, ...]


def attribute(
    summaries: Sequence[BackendSummary], end: str, *, stopped_by_width: bool = False
) -> Attribution | None:
    """Divide the speed-up of `end` over the comparison's reference among the choices in which they differ.

    Each launch's values are the midmeans of its rounds' log ratios, as in the table, so that the whole is
    the table's speed-up; the intervals are over launches, `stopped_by_width` as in
    `intervals.speedup_of_launches`. None unless every combination of the choices was measured and has a
    speed-up.
    """
    start = next((summary for summary in summaries if summary.is_reference), None)
    last = next((summary for summary in summaries if summary.backend == end), None)
    if start is None or last is None or last.speedup is None:
        return None
    factors = changed_factors(start, last)
    combinations = _find_combinations(start, last, factors, summaries)
    if not factors or combinations is None:
        return None
    logs = {subset: midmeans_by_launch(summary) for subset, summary in combinations.items() if subset}
    launches = sorted(set.intersection(*(set(by_launch) for by_launch in logs.values())))
    if not launches:
        return None
    values_by_launch = [
        {Subset(): 0.0} | {subset: by_launch[number] for subset, by_launch in logs.items()}
        for number in launches
    ]
    means = {
        subset: arithmetic.mean([values[subset] for values in values_by_launch]) for subset in combinations
    }

    def effect_of(factor: str) -> Speedup:
        effects = [np.array([shapley_values(values, factors)[factor]]) for values in values_by_launch]
        return speedup_of_launches(effects, stopped_by_width=stopped_by_width)

    return Attribution(
        start=start.backend,
        end=end,
        total=last.speedup,
        parts=tuple(
            contribution_of(
                factor, f"{getattr(start, factor)} → {getattr(last, factor)}", effect_of(factor), means
            )
            for factor in factors
        ),
    )


def contribution_of(factor: str, change: str, effect: Speedup, means: Mapping[Subset, float]) -> Contribution:
    """What one factor contributes; `means` holds the mean log ratio of every subset of the factors."""
    marginals = [marginal(means, factor, before) for before in means if factor not in before]
    return Contribution(
        factor=factor,
        change=change,
        effect=effect,
        lowest=math.exp(min(marginals)),
        highest=math.exp(max(marginals)),
    )


def changed_factors(start: BackendSummary, end: BackendSummary) -> tuple[str, ...]:
    """The choices in which two backends differ."""
    return tuple(factor for factor in FACTORS if getattr(start, factor) != getattr(end, factor))


def midmeans_by_launch(summary: BackendSummary) -> dict[int, float]:
    """The midmean of each launch's log ratios, by launch."""
    return {number: midmean(np.array(logs)) for number, logs in summary.log_ratios.items()}


def _find_combinations(
    start: BackendSummary, end: BackendSummary, factors: Sequence[str], summaries: Sequence[BackendSummary]
) -> dict[Subset, BackendSummary] | None:
    """The backend of each subset of changed factors; None if one is missing or has no speed-up."""
    backends: dict[tuple[str, ...], BackendSummary] = {}
    for summary in summaries:
        if summary.is_reference or summary.speedup:
            backends.setdefault(tuple(getattr(summary, factor) for factor in FACTORS), summary)
    combinations = {}
    for subset in subsets_of(factors):
        choices = tuple(getattr(end if factor in subset else start, factor) for factor in FACTORS)
        if choices not in backends:
            return None
        combinations[subset] = backends[choices]
    return combinations
