"""Which choice made the difference: a speed-up divided among engine, optimizer and sharding.

A backend is three independent choices. Where all combinations between two backends were measured, the change
that a choice makes can be taken at every place in the order of changes, and these disagree if the choices
interact. The mean over all orders depends on none (the Shapley value: L. S. Shapley, "A value for n-person
games", 1953), and the parts multiply to the whole. Everything is computed on logarithms.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bench.analysis import intervals
from bench.analysis.intervals import Speedup
from bench.analysis.summary import BackendSummary, summarise
from bench.analysis.throughput import stopped_by_width
from bench.results import arithmetic

FACTORS = ("optimizer", "engine", "sharding", "attention", "stack")
"""In the order in which a waterfall shows them: the cheapest change first."""

Subset = frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one choice contributes.

    Attributes:
        factor: the choice, one of `FACTORS` or a setting.
        change: what it goes from and to, such as `eager → ortmodule`.
        effect: its mean over all orders, as a ratio of throughputs with its interval.
        lowest: its effect in the order where it is smallest, a ratio.
        highest: in the order where it is largest.
    """

    factor: str
    change: str
    effect: Speedup
    lowest: float
    highest: float


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """A speed-up and its parts, whose ratios multiply to it."""

    start: str
    end: str
    total: Speedup
    parts: tuple[Part, ...]


def attribute(summaries: Sequence[BackendSummary], end: str, *, stopped: bool = False) -> Attribution | None:
    """Divide the speed-up of `end` over the comparison's reference among the choices in which they differ.

    Each launch's values are the midmeans of its rounds' log ratios, as in the table, so that the whole is
    the table's speed-up; the intervals are over launches.

    Args:
        summaries: of one comparison.
        end: a backend.
        stopped: as in `intervals.speedup_of_launches`.

    Returns:
        None unless every combination of the choices was measured and has a speed-up.
    """
    named = {one.backend: one for one in summaries}
    start = next((one for one in summaries if one.is_reference), None)
    last = named.get(end)
    if start is None or last is None or last.speedup is None:
        return None
    factors = changed(start, last)
    corners = _corners(start, last, factors, summaries)
    if not factors or corners is None:
        return None
    logs = {subset: _middles(named[name]) for subset, name in corners.items() if subset}
    launches = sorted(set.intersection(*(set(found) for found in logs.values())))
    if not launches:
        return None
    nothing: Subset = frozenset()
    games = [
        {nothing: 0.0} | {subset: found[number] for subset, found in logs.items()} for number in launches
    ]
    return Attribution(
        start=start.backend,
        end=end,
        total=last.speedup,
        parts=tuple(
            _part(factor, f"{getattr(start, factor)} → {getattr(last, factor)}", factors, games, stopped)
            for factor in factors
        ),
    )


def changed(start: BackendSummary, end: BackendSummary) -> tuple[str, ...]:
    """The choices in which two backends differ."""
    return tuple(factor for factor in FACTORS if getattr(start, factor) != getattr(end, factor))


def _middles(one: BackendSummary) -> dict[int, float]:
    """The midmean of each launch's log ratios, by launch."""
    return {number: intervals.midmean(np.array(logs)) for number, logs in one.log_ratios.items()}


def _corners(
    start: BackendSummary, end: BackendSummary, factors: Sequence[str], summaries: Any
) -> dict[Subset, str] | None:
    """The backend of each subset of changed factors; None if one is missing or has no speed-up."""
    found: dict[tuple[str, ...], str] = {}
    for one in summaries:
        if one.is_reference or one.speedup:
            found.setdefault(tuple(getattr(one, factor) for factor in FACTORS), one.backend)
    corners = {}
    for subset in _subsets(factors):
        choices = tuple(getattr(end if factor in subset else start, factor) for factor in FACTORS)
        if choices not in found:
            return None
        corners[subset] = found[choices]
    return corners


def _part(
    factor: str, change: str, factors: Sequence[str], games: Sequence[Mapping[Subset, float]], stopped: bool
) -> Part:
    effects = [np.array([shapley(game, factors)[factor]]) for game in games]
    mean = {subset: arithmetic.mean([game[subset] for game in games]) for subset in games[0]}
    marginal = [_marginal(mean, factor, before) for before in _subsets(set(factors) - {factor})]
    return Part(
        factor=factor,
        change=change,
        effect=intervals.speedup_of_launches(effects, stopped=stopped),
        lowest=math.exp(min(marginal)),
        highest=math.exp(max(marginal)),
    )


def shapley(game: Mapping[Subset, float], factors: Sequence[str]) -> dict[str, float]:
    """Each factor's mean marginal contribution over all orders; they add up to the whole.

    Args:
        game: the value of every subset of `factors`, the empty one included.
        factors: the players.
    """
    count = math.factorial(len(factors))
    shares = dict.fromkeys(factors, 0.0)
    for order in itertools.permutations(factors):
        before: Subset = frozenset()
        for factor in order:
            shares[factor] += _marginal(game, factor, before) / count
            before |= {factor}
    return shares


def _marginal(game: Mapping[Subset, float], factor: str, before: Subset) -> float:
    return game[before | {factor}] - game[before]


def _subsets(factors: Any) -> list[Subset]:
    ordered = sorted(factors)
    return [
        frozenset(chosen)
        for size in range(len(ordered) + 1)
        for chosen in itertools.combinations(ordered, size)
    ]


# Fairness: what of a speed-up is the harness's and none of the engine's


@dataclass(frozen=True, kw_only=True)
class Fairness:
    """What an uncontrolled harness prints of one backend, and what is left where settings are held.

    Attributes:
        backend: whose speed-up over `reference` it is.
        naive: with nothing held.
        parts: what each setting adds to it, as ratios above 1 if leaving it alone flatters the backend.
        own: with everything held, the backend's own part; `naive` = `own` × the parts.
    """

    backend: str
    reference: str
    naive: Speedup
    parts: tuple[Part, ...]
    own: Speedup


SETTINGS = ("threads", "allocator")
"""What a harness may leave alone: `device.hold_threads` and `device.allocator`."""


def fairness(tables: Sequence[pd.DataFrame], backend: str) -> Fairness | None:
    """Divide the speed-up of an uncontrolled comparison among `SETTINGS` and the backend itself.

    Args:
        tables: comparisons of the same workload and hardware, one for every combination of the settings.
        backend: whose speed-up over the reference is divided.

    Returns:
        None unless every combination is there, and the backend has a speed-up in each.
    """
    found: dict[Subset, pd.DataFrame] = {}
    for rows in tables:
        left_alone = _left_alone(rows)
        if left_alone is not None and backend in set(rows["backend"]):
            found[left_alone] = rows
    if set(found) != set(_subsets(SETTINGS)):
        return None
    reference = str(found[frozenset()]["reference"].iloc[0])
    launches: dict[Subset, np.ndarray[Any, Any]] = {}
    for subset, rows in found.items():
        summaries = {one.backend: one for one in summarise(rows)}
        if summaries[backend].speedup is None or str(rows["reference"].iloc[0]) != reference:
            return None
        launches[subset] = np.array(list(_middles(summaries[backend]).values()))
    stopped = stopped_by_width(*found.values())
    every = frozenset(SETTINGS)
    factors = SETTINGS
    means = {subset: float(values.mean()) for subset, values in launches.items()}
    return Fairness(
        backend=backend,
        reference=reference,
        naive=intervals.speedup_of_launches(
            [np.array([value]) for value in launches[every]], stopped=stopped
        ),
        parts=tuple(_setting(factor, factors, launches, means, stopped) for factor in factors),
        own=intervals.speedup_of_launches(
            [np.array([value]) for value in launches[frozenset()]], stopped=stopped
        ),
    )


def _left_alone(rows: pd.DataFrame) -> Subset | None:
    """The settings that this comparison does not hold; None if its rows disagree."""
    left_alone = {
        "threads": set(rows["cores_per_rank"] > rows["threads_per_rank"]),
        "allocator": set(rows["allocator"] != "tuned"),
    }
    if any(len(answers) != 1 for answers in left_alone.values()):
        return None
    return frozenset(factor for factor in SETTINGS if left_alone[factor] == {True})


def _setting(
    factor: str,
    factors: Sequence[str],
    launches: Mapping[Subset, Any],
    means: Mapping[Subset, float],
    stopped: bool,
) -> Part:
    """A setting's mean marginal effect. The comparisons were made apart, so that their errors add up."""
    weights = shapley_weights(factor, factors)
    marginal = [_marginal(means, factor, before) for before in _subsets(set(factors) - {factor})]
    return Part(
        factor=factor,
        change="held → left alone",
        effect=intervals.combine_samples(
            [(weight, launches[subset]) for subset, weight in weights.items()], stopped
        ),
        lowest=math.exp(min(marginal)),
        highest=math.exp(max(marginal)),
    )


def shapley_weights(factor: str, factors: Sequence[str]) -> dict[Subset, float]:
    """How much each subset's value counts in this factor's share."""
    weights = {}
    for subset in _subsets(factors):
        unit = {other: float(other == subset) for other in _subsets(factors)}
        weights[subset] = shapley(unit, factors)[factor]
    return weights
