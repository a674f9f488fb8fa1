"""The speed-ups of one comparison on several machines, and their means.

There are three levels: kinds of machines, the hosts of a kind, and the launches of a host. So a comparison
that several machines made has a row for each host, the mean of a kind's hosts, and that of the kinds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bench.compare.kinds import HostSpread, SameComparison, group_by_kind
from bench.statistics.intervals import Floats, Speedup, from_logs, squared_standard_error, t_quantile

SMALLEST_VARIANCE = 1e-12
"""Least squared standard error of a mean of logarithms: launches that agree to more digits than a clock has
would outweigh all others."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The mean of several kinds of machines, a ratio, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class BackendOnMachines:
    """A backend's speed-up over another on each machine; no spread unless two kinds have intervals."""

    backend: str
    base: str
    speedups: Mapping[str, Speedup]
    kinds: Mapping[str, Speedup]  # by the first of a kind's machines, the mean of those with several launches
    spread: Spread | None


def compare_backends(same: SameComparison, hosts: HostSpread) -> list[BackendOnMachines]:
    """Each backend that at least two machines have measured."""
    return [_compare_backend(same, backend, hosts) for backend in same.launches]


def _compare_backend(same: SameComparison, backend: str, hosts: HostSpread) -> BackendOnMachines:
    base = next(iter(same.machines.values())).reference
    measured = same.launches[backend]
    speedups = {name: same.machines[name].speedup_between(backend, base) for name in measured}
    several = {name: launches for name, launches in measured.items() if len(launches) > 1}
    kinds: dict[str, Speedup] = {}
    means, variances = [], []
    for names in group_by_kind({name: same.machines[name] for name in several}):
        squared = [squared_standard_error(several[name]) + hosts.deviation**2 for name in names]
        weights = 1 / np.maximum(squared, SMALLEST_VARIANCE)
        means.append(np.average([several[name].mean() for name in names], weights=weights))
        variances.append(1 / weights.sum())
        half = t_quantile(hosts.freedom) * math.sqrt(variances[-1])
        kinds[names[0]] = from_logs(float(means[-1]), half, launches=len(names), rounds=0)
    return BackendOnMachines(
        backend=backend,
        base=base,
        speedups={name: speedup for name, speedup in speedups.items() if speedup},
        kinds=kinds,
        spread=spread_of(np.array(means), np.array(variances)) if len(means) > 1 else None,
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
        variances: the squared standard error of each, which includes the spread of its hosts.
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
