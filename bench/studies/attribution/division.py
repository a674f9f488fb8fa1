"""A speed-up divided among the choices in which two backends differ.

A backend is a set of choices (`FACTORS`). Where all combinations between two backends were measured, the
change that a choice makes can be taken at every place in the order of changes, and these disagree if the
choices interact. The mean over all orders, the Shapley value, depends on none, and the parts multiply to the
whole. Everything is computed on logarithms. Source: L. S. Shapley, "A value for n-person games", 1953.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.statistics.comparability import CHOICES
from bench.statistics.intervals import Floats, Speedup, launch_midmeans, speedup_of_launches
from bench.statistics.summary import BackendSummary

Subset = frozenset[str]

FACTORS = ("optimizer", *(choice for choice in CHOICES if choice != "optimizer"))
"""The choices of a backend, in the order in which a table shows them: the cheapest change first."""


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one choice contributes."""

    factor: str  # the choice, one of `FACTORS`
    change: str  # its two values, such as `eager → ortmodule`
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

    Each launch's values are the midmeans of its rounds' log ratios, as in the table. The whole is the
    table's speed-up, but of those launches alone in which all combinations have one; the intervals are over
    launches, `stopped_by_width` as in `intervals.speedup_of_launches`. None unless every combination of the
    choices was measured and has a speed-up.
    """
    start = next((summary for summary in summaries if summary.is_reference), None)
    last = next((summary for summary in summaries if summary.backend == end), None)
    if start is None or last is None or last.speedup is None:
        return None
    factors = changed_factors(start, last)
    combinations = _find_combinations(start, last, factors, summaries)
    if not factors or combinations is None:
        return None
    logs = {subset: summary.log_ratios for subset, summary in combinations.items() if subset}
    launches = sorted(set.intersection(*map(set, logs.values())))
    if not launches:
        return None
    values: dict[Subset, Floats] = {Subset(): np.zeros(len(launches))}
    for subset, by_launch in logs.items():
        values[subset] = launch_midmeans(by_launch[number] for number in launches)
    estimate = partial(speedup_of_launches, stopped_by_width=stopped_by_width)

    def effect_of(factor: str) -> Speedup:
        weights = shapley_weights(factor, factors)
        effects = sum((weight * values[subset] for subset, weight in weights.items()), values[Subset()])
        return estimate(list(effects[:, np.newaxis]))

    return Attribution(
        start=start.backend,
        end=end,
        total=estimate([last.log_ratios[number] for number in launches]),
        parts=tuple(
            contribution_of(
                factor, f"{getattr(start, factor)} → {getattr(last, factor)}", effect_of(factor), values
            )
            for factor in factors
        ),
    )


def contribution_of(
    factor: str, change: str, effect: Speedup, values: Mapping[Subset, Floats]
) -> Contribution:
    """What one factor contributes; `values` are the log ratios of every subset of the factors, by launch."""
    means = {subset: float(logs.mean()) for subset, logs in values.items()}
    marginals = [means[before | {factor}] - means[before] for before in means if factor not in before]
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


def subsets_of(factors: Iterable[str]) -> list[Subset]:
    """Every subset, from none to all of them."""
    ordered = sorted(factors)
    return [
        frozenset(chosen)
        for size in range(len(ordered) + 1)
        for chosen in itertools.combinations(ordered, size)
    ]


def shapley_weights(factor: str, factors: Collection[str]) -> dict[Subset, float]:
    """How much each subset's value counts in what a factor adds to those before it, mean over all orders."""
    weights: dict[Subset, float] = {}
    for before in subsets_of(set(factors) - {factor}):
        weight = 1 / (len(factors) * math.comb(len(factors) - 1, len(before)))
        weights |= {before: -weight, before | {factor}: weight}
    return weights
