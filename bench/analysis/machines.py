"""How much a speed-up differs between machines, which the interval of one machine's launches leaves out.

There are three levels: kinds of machines, the hosts of a kind, and the launches of a host. Two hosts of one
kind can have intervals that exclude each other. So a comparison that several machines made has a row for each
host, the mean of a kind's hosts, and that of the kinds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from bench.analysis.comparison_results import ComparisonResults
from bench.statistics.backend_blocks import blocks_of
from bench.statistics.comparability import MUST_EQUAL, OF_OWN_BATCH, choices_of, join_values
from bench.statistics.intervals import (
    Floats,
    Speedup,
    from_logs,
    launch_midmeans,
    squared_standard_error,
    t_quantile,
)

FEWEST = 3  # machines, or pairs of hosts: of two it is not known how much they spread

SMALLEST_VARIANCE = 1e-12
"""Least squared standard error of a mean of logarithms: launches that agree to more digits than a clock has
would outweigh all others."""


@dataclass(frozen=True, kw_only=True)
class HostSpread:
    """How much true log speed-ups of a kind's hosts differ; the default is docs/methodology.md's, "Hosts"."""

    deviation: float = 0.05  # their standard deviation
    freedom: float = math.inf  # its degrees of freedom
    pairs: int = 0  # of hosts that are known: of each kind one fewer than its hosts

    def __str__(self) -> str:
        """What it is, and where it comes from."""
        known = f"estimated from {self.pairs} pairs"
        assumed = f"assumed until {FEWEST} pairs of hosts are known"
        return f"{self.deviation:.1%} between hosts, {assumed if math.isinf(self.freedom) else known}"


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The mean of several kinds of machines, a ratio, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class BackendOnMachines:
    """A backend's speed-up over another one on each machine; no spread unless two kinds have intervals."""

    backend: str
    base: str
    speedups: Mapping[str, Speedup]
    launches: Mapping[str, Floats]  # log speed-up of each launch, where a machine has several
    kinds: Mapping[str, Speedup]  # by the first of a kind's machines, the mean of those that have launches
    spread: Spread | None


@dataclass(frozen=True, kw_only=True)
class SameComparison:
    """A comparison that machines have made, by the machine's name, and what became of its backends."""

    machines: Mapping[str, ComparisonResults]
    backends: Sequence[BackendOnMachines]


def group_by_comparison(
    by_machine: Mapping[str, Iterable[ComparisonResults]],
) -> list[SameComparison]:
    """The comparisons that at least two machines have made, in the order in which they are given.

    Of several of one machine that with the shortest name counts, whose command has the fewest overrides:
    rounds of the same machine would make the machines look more alike than they are.
    """
    groups: dict[tuple[tuple[str, str], ...], dict[str, ComparisonResults]] = {}
    for machine, several in by_machine.items():
        for results in sorted(several, key=lambda results: (len(results.stem), results.stem)):
            if settings := settings_of(results):
                groups.setdefault(tuple(settings.items()), {}).setdefault(machine, results)
    made = [group for group in groups.values() if len(group) > 1]
    hosts = spread_between_hosts(compare_machines(group) for group in made)
    return [same for group in made if (same := compare_machines(group, hosts)).backends]


def group_by_kind(machines: Mapping[str, ComparisonResults]) -> list[list[str]]:
    """The names of machines, those of one kind together, as rows know it: CPU, number of cores, GPUs."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name, results in machines.items():
        kinds.setdefault(results.machine_key, []).append(name)
    return list(kinds.values())


def spread_between_hosts(compared: Iterable[SameComparison]) -> HostSpread:
    """Estimate the spread of hosts within kinds, pooled over comparisons and backends; else the default.

    The variance of a kind's hosts less that of each one's mean over launches. Its degrees of freedom are the
    pairs of hosts, not backends: a host that is special is so for all of them.
    """
    variances, weights, pairs = [], [], dict[tuple[str, ...], int]()
    for same in compared:
        for names, backend in product(group_by_kind(same.machines), same.backends):
            hosts = [backend.launches[name] for name in names if name in backend.launches]
            if len(hosts) > 1:
                noise = np.mean([squared_standard_error(launches) for launches in hosts])
                variances.append(np.var([launches.mean() for launches in hosts], ddof=1) - noise)
                weights.append(len(hosts) - 1)
                kind = same.machines[names[0]].machine_key
                pairs[kind] = max(weights[-1], pairs.get(kind, 0))
    known = sum(pairs.values())
    if known < FEWEST:
        return HostSpread(pairs=known)
    variance = max(0.0, float(np.average(variances, weights=weights)))
    return HostSpread(deviation=math.sqrt(variance), freedom=known, pairs=known)


def settings_of(results: ComparisonResults) -> dict[str, str]:
    """What is equal for comparisons of the same; empty if its reference was not timed.

    Columns of the reference, since other backends may be measured beside it. Where each backend has its own
    largest batch, that is a result.
    """
    timed = blocks_of(results.rows, results.reference).valid
    if not len(timed):
        return {}
    columns = [
        name
        for name in (*MUST_EQUAL, "micro_batch", "padding_share")
        if not (results.at_largest and name in OF_OWN_BATCH)
    ]
    texts = {name: join_values(timed.distinct(name)) for name in columns}
    return {"reference": results.reference, **texts, **choices_of(timed)}


def backends_of(results: ComparisonResults) -> dict[str, dict[str, str]]:
    """The choices of each backend that has a speed-up over the reference."""
    return {
        other.backend: choices_of(blocks_of(results.rows, other.backend).valid)
        for other in results.others
        if other.speedup
    }


def compare_machines(
    machines: Mapping[str, ComparisonResults], hosts: HostSpread = HostSpread()
) -> SameComparison:
    """Each backend that at least two machines have measured; under one name it must be the same."""
    known = {machine: backends_of(results) for machine, results in machines.items()}
    made: dict[str, list[str]] = {}
    for machine, backends in known.items():
        for name, choices in backends.items():
            others = made.setdefault(name, [])
            if not others or known[others[0]][name] == choices:
                others.append(machine)
    compared = [
        _compare_backend(name, {machine: machines[machine] for machine in several}, hosts)
        for name, several in made.items()
        if len(several) > 1
    ]
    return SameComparison(machines=machines, backends=[each for each in compared if len(each.speedups) > 1])


def _compare_backend(
    backend: str, machines: Mapping[str, ComparisonResults], hosts: HostSpread
) -> BackendOnMachines:
    base = next(iter(machines.values())).reference
    speedups: dict[str, Speedup] = {}
    several: dict[str, Floats] = {}
    for name, results in machines.items():
        ours, theirs = blocks_of(results.rows, backend), blocks_of(results.rows, base)
        if speedup := ours.speedup_over(theirs):
            speedups[name] = speedup
        if len(launches := launch_midmeans(ours.log_ratios(theirs).values())) > 1:
            several[name] = launches
    kinds: dict[str, Speedup] = {}
    means, variances = [], []
    for names in group_by_kind({name: machines[name] for name in several}):
        squared = [squared_standard_error(several[name]) + hosts.deviation**2 for name in names]
        weights = 1 / np.maximum(squared, SMALLEST_VARIANCE)
        means.append(np.average([several[name].mean() for name in names], weights=weights))
        variances.append(1 / weights.sum())
        half = t_quantile(hosts.freedom) * math.sqrt(variances[-1])
        kinds[names[0]] = from_logs(float(means[-1]), half, launches=len(names), rounds=0)
    more = len(means) > 1
    return BackendOnMachines(
        backend=backend,
        base=base,
        speedups=speedups,
        launches=several,
        kinds=kinds,
        spread=spread_of(np.array(means), np.array(variances)) if more else None,
    )


def spread_of(logs: Floats, variances: Floats) -> Spread:
    """The random-effects mean of at least two kinds of machines.

    The variance between machines is Paule and Mandel's, the mean's interval Hartung and Knapp's: Student's t
    with machines - 1 degrees of freedom. Their factor of the standard error is 1 by the definition of that
    variance; where it is 0 the factor would be smaller, and is not used (Röver, Knapp & Friede, BMC Medical
    Research Methodology 15 (2015), 99).
    Sources: R. C. Paule & J. Mandel, Journal of Research of the National Bureau of Standards 87 (1982),
    377-385; J. Hartung & G. Knapp, Statistics in Medicine 20 (2001), 3875-3889.

    Args:
        logs: of each kind's speed-up, shape (kinds,).
        variances: the squared standard error of each, in which the spread of its hosts is.
    """
    variances = np.maximum(variances, SMALLEST_VARIANCE)
    weights = 1 / (variances + variance_between(logs, variances))
    mean = float(np.average(logs, weights=weights))
    half = t_quantile(len(logs) - 1) / math.sqrt(weights.sum())
    return Spread(mean=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half))


def variance_between(values: Floats, variances: Floats) -> float:
    """Paule and Mandel's variance between groups, by the steps of DerSimonian and Kacker.

    With it the weighted sum of squares is what it is expected to be, groups - 1; 0 if it is smaller anyway.
    Source: R. DerSimonian & R. Kacker, Contemporary Clinical Trials 28 (2007), 105-114.
    """
    between = 0.0
    while True:  # the sum falls and is convex, so that steps from 0 never go too far
        weights = 1 / (variances + between)
        squares = (values - np.average(values, weights=weights)) ** 2
        excess = float((weights * squares).sum()) - (len(values) - 1)
        if excess <= 1e-9:
            return between
        between += excess / float((weights**2 * squares).sum())
