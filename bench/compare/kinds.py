"""How far hosts of one kind lie apart, which the interval of one host's launches leaves out.

Two hosts of one kind can have intervals that exclude each other.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from bench.analysis.comparison_results import ComparisonResults
from bench.statistics.backend_blocks import blocks_of
from bench.statistics.comparability import MUST_EQUAL, OF_OWN_BATCH, choices_of, join_values
from bench.statistics.intervals import Floats, launch_midmeans, squared_standard_error

FEWEST = 3  # machines, or pairs of hosts: of two it is not known how much they spread


@dataclass(frozen=True, kw_only=True)
class HostSpread:
    """How much true log speed-ups of a kind's hosts differ; the default is docs/methodology.md's, "Hosts"."""

    deviation: float = 0.05  # their standard deviation
    freedom: float = math.inf  # its degrees of freedom
    pairs: int = 0  # pairs of known hosts: for each kind, its number of hosts less one

    def __str__(self) -> str:
        """The value, and where it comes from."""
        known = f"estimated from {self.pairs} pairs"
        assumed = f"assumed until {FEWEST} pairs of hosts are known"
        return f"{self.deviation:.1%} between hosts, {assumed if math.isinf(self.freedom) else known}"


@dataclass(frozen=True, kw_only=True)
class SameComparison:
    """A comparison that several machines have made."""

    machines: Mapping[str, ComparisonResults]  # by the machine's name
    # of each backend that at least two machines measured with the same choices, the log speed-ups of the
    # launches of each of these machines; a machine may have a single launch
    launches: Mapping[str, Mapping[str, Floats]]


def group_by_comparison(by_machine: Mapping[str, Iterable[ComparisonResults]]) -> list[SameComparison]:
    """The comparisons that at least two machines have made, in the order in which they are given.

    If one machine has several, the one with the shortest name counts, whose command has the fewest
    overrides: several of one machine would make the machines seem more alike than they are.
    """
    groups: dict[tuple[tuple[str, str], ...], dict[str, ComparisonResults]] = {}
    for machine, several in by_machine.items():
        for results in sorted(several, key=lambda results: (len(results.stem), results.stem)):
            if settings := settings_of(results):
                groups.setdefault(tuple(settings.items()), {}).setdefault(machine, results)
    made = [
        SameComparison(machines=group, launches=_launches_of(group))
        for group in groups.values()
        if len(group) > 1
    ]
    return [same for same in made if same.launches]


def _launches_of(machines: Mapping[str, ComparisonResults]) -> dict[str, dict[str, Floats]]:
    """`SameComparison.launches`: under one name a backend must be the same on all machines."""
    known = {machine: backends_of(results) for machine, results in machines.items()}
    made: dict[str, list[str]] = {}
    for machine, backends in known.items():
        for name, choices in backends.items():
            others = made.setdefault(name, [])
            if not others or known[others[0]][name] == choices:
                others.append(machine)
    return {
        backend: {machine: _log_speedups(machines[machine], backend) for machine in several}
        for backend, several in made.items()
        if len(several) > 1
    }


def _log_speedups(results: ComparisonResults, backend: str) -> Floats:
    ours, theirs = blocks_of(results.rows, backend), blocks_of(results.rows, results.reference)
    return launch_midmeans(ours.log_ratios(theirs).values())


def group_by_kind(machines: Mapping[str, ComparisonResults]) -> list[list[str]]:
    """The names of machines, those of one kind together, as rows know it: CPU, number of cores, GPUs."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name, results in machines.items():
        kinds.setdefault(results.machine_key, []).append(name)
    return list(kinds.values())


def spread_between_hosts(compared: Sequence[SameComparison]) -> HostSpread:
    """Estimate the spread of hosts within kinds, pooled over comparisons and backends; else the default.

    It is the variance between a kind's hosts less the variance of each host's mean over launches. Its degrees
    of freedom are the pairs of hosts, not backends: an unusual host is unusual for all backends.
    """
    variances, weights, pairs = [], [], dict[tuple[str, ...], int]()
    for same in compared:
        for names, launches in product(group_by_kind(same.machines), same.launches.values()):
            hosts = [launches[name] for name in names if len(launches.get(name, ())) > 1]
            if len(hosts) > 1:
                noise = np.mean([squared_standard_error(each) for each in hosts])
                variances.append(np.var([each.mean() for each in hosts], ddof=1) - noise)
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
