"""Divides a whole among factors that may interact, by the Shapley value.

A factor's share is its mean marginal contribution over all orders in which the factors can come in, so that
it depends on no order. Source: L. S. Shapley, "A value for n-person games", 1953.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

Subset = frozenset[str]


def shapley_values(game: Mapping[Subset, float], factors: Sequence[str]) -> dict[str, float]:
    """Each factor's mean marginal contribution over all orders; they add up to the whole.

    `game` has the value of every subset of `factors`, the empty one included.
    """
    count = math.factorial(len(factors))
    shares = dict.fromkeys(factors, 0.0)
    for order in itertools.permutations(factors):
        before: Subset = frozenset()
        for factor in order:
            shares[factor] += marginal(game, factor, before) / count
            before |= {factor}
    return shares


def marginal(game: Mapping[Subset, float], factor: str, before: Subset) -> float:
    """What `factor` adds to a subset that lacks it."""
    return game[before | {factor}] - game[before]


def subsets_of(factors: Iterable[str]) -> list[Subset]:
    """Every subset, from none to all of them."""
    ordered = sorted(factors)
    return [
        frozenset(chosen)
        for size in range(len(ordered) + 1)
        for chosen in itertools.combinations(ordered, size)
    ]


def shapley_weights(factor: str, factors: Sequence[str]) -> dict[Subset, float]:
    """How much each subset's value counts in this factor's share."""
    weights = {}
    for subset in subsets_of(factors):
        unit = {other: float(other == subset) for other in subsets_of(factors)}
        weights[subset] = shapley_values(unit, factors)[factor]
    return weights
