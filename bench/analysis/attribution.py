"""A speed-up divided: among the choices in which two backends differ, or settings left alone.

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
import pandas as pd

from bench.results.environment_cell import latest_environment, machine_key
from bench.statistics.comparability import CHOICES
from bench.statistics.intervals import Floats, Speedup, combine_samples, launch_midmeans, speedup_of_launches
from bench.statistics.summary import BackendSummary, summarise
from bench.statistics.table_values import stopped_by_width

Subset = frozenset[str]

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


@dataclass(frozen=True, kw_only=True)
class Fairness:
    """What an uncontrolled harness prints of one backend, and what is left where settings are held."""

    backend: str  # whose speed-up over `reference` it is
    reference: str
    naive: Speedup  # with nothing held
    # what each setting adds to it, as ratios above 1 if leaving it alone flatters the backend
    parts: tuple[Contribution, ...]
    own: Speedup  # with everything held, the backend's own part; `naive` = `own` × the parts


SETTINGS = ("threads", "allocator", "blas")
"""What a harness may leave alone: `device.hold_threads`, `device.allocator` and `device.blas`."""

ALWAYS_DIVIDED = frozenset({"threads", "allocator"})
"""The settings of `SETTINGS` that exist on every machine. MKL has a second path on some CPUs only."""


def attribute_to_settings(tables: Sequence[pd.DataFrame], backend: str) -> Fairness | None:
    """Divide the speed-up of an uncontrolled comparison among the settings that vary and the backend itself.

    Args:
        tables: comparisons of the same workload and hardware, one for every combination of `SETTINGS`, or of
            `ALWAYS_DIVIDED` if blas is the same in all; of the same combination the latest counts.
        backend: whose speed-up over the reference is divided.

    Returns:
        None unless every combination is there, all on the same machine with the same packages, and the
        backend has a speed-up in each.
    """
    environments = [latest_environment(rows) for rows in tables]
    if len({(machine_key(each), str(each.get("packages"))) for each in environments}) > 1:
        return None
    combinations = {
        left_alone: rows
        for rows in sorted(tables, key=lambda rows: str(rows["started_at"].max()))
        if (left_alone := _settings_left_alone(rows)) is not None and backend in set(rows["backend"])
    }
    settings = Subset()  # that are held in some combinations and left alone in others
    if combinations:
        settings = frozenset.union(*combinations) - frozenset.intersection(*combinations)
    by_settings = {left_alone & settings: rows for left_alone, rows in combinations.items()}
    if not settings >= ALWAYS_DIVIDED or set(by_settings) != set(subsets_of(settings)):
        return None
    reference = str(by_settings[frozenset()]["reference"].iloc[0])
    launches: dict[Subset, Floats] = {}
    for subset, rows in by_settings.items():
        summaries = {summary.backend: summary for summary in summarise(rows)}
        if summaries[backend].speedup is None or str(rows["reference"].iloc[0]) != reference:
            return None
        launches[subset] = launch_midmeans(summaries[backend].log_ratios.values())
    stopped = stopped_by_width(*by_settings.values())

    def whole(left_alone: Subset) -> Speedup:
        return speedup_of_launches(list(launches[left_alone][:, np.newaxis]), stopped_by_width=stopped)

    def effect_of(setting: str) -> Speedup:
        """The setting's mean marginal effect. Comparisons were made apart, so that their errors add up."""
        weights = shapley_weights(setting, settings)
        return combine_samples([(weight, launches[subset]) for subset, weight in weights.items()], stopped)

    return Fairness(
        backend=backend,
        reference=reference,
        naive=whole(settings),
        parts=tuple(
            contribution_of(setting, "held → left alone", effect_of(setting), launches)
            for setting in SETTINGS
            if setting in settings
        ),
        own=whole(frozenset()),
    )


def _settings_left_alone(rows: pd.DataFrame) -> Subset | None:
    """The settings that this comparison does not hold; None if its rows disagree."""
    left_alone = {
        "threads": set(rows["cores_per_rank"] > rows["threads_per_rank"]),
        "allocator": set(rows["allocator"] != "tuned"),
        "blas": set(rows["blas"] != "full"),
    }
    if any(len(answers) != 1 for answers in left_alone.values()):
        return None
    return frozenset(factor for factor in SETTINGS if left_alone[factor] == {True})


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
