"""Tells one kind of block from two: do the throughputs fall into two separate clusters?"""

import math

import numpy as np
import numpy.typing as npt

from bench.statistics.intervals import Floats

SEPARATION = 4.0
"""Ashman's D (Ashman, Bird & Zepf 1994, AJ 108, 2348) of two clusters of blocks. They call 2 a clean
separation; the best split of a few normal values reaches 3 often and 4 rarely."""

LEAST_DISTANCE = 0.03
"""Distance of two clusters in log throughput up to which they do not matter."""


def distance_of_two_clusters(values: npt.ArrayLike) -> float | None:
    """The distance of two well-separated clusters, each at least a fifth of the values; None if there is one.

    `values` are log throughputs, shape (blocks,), in any order.
    """
    values = np.sort(np.asarray(values, float))
    least = max(2, len(values) // 5)
    below = np.arange(least, len(values) - least + 1)  # how many are in the lower cluster, for each cut
    if below.size == 0:
        return None
    low, high = _means_and_variances(values, below), _means_and_variances(values[::-1], len(values) - below)
    apart, width = high[0] - low[0], low[1] + high[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        separation = np.where(apart > 0, math.sqrt(2) * apart / np.sqrt(width), 0.0)
    best = int(np.argmax(separation))
    return float(apart[best]) if separation[best] > SEPARATION and apart[best] > LEAST_DISTANCE else None


def _means_and_variances(values: Floats, counts: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Mean and variance of the first so many of the values, for each of `counts`."""
    centre = values.mean()
    sums = np.cumsum(values - centre)[counts - 1]
    squares = np.cumsum((values - centre) ** 2)[counts - 1]
    return centre + sums / counts, np.maximum(0, squares - sums**2 / counts) / (counts - 1)
