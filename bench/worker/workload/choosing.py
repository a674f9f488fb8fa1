"""Which of the micro-batches that are timed the parity launch compares: all, or those that differ most."""

from collections.abc import Sequence

import numpy as np

from bench.worker.sharding import Batch
from bench.worker.workload.feeds import Feed

CANDIDATES = 8
"""The longest and the shortest of a large dataset are searched among 8 times as many as are compared."""

MASK = "attention_mask"


def choose_compared(feed: Feed, most: int) -> list[int]:
    """The numbers of all micro-batches, or of `most`: evenly spread ones, the longest and the shortest."""
    numbers = _spread(feed.distinct, most)
    (parts,) = feed.make([0])
    if len(numbers) == feed.distinct or MASK not in parts[0]:
        return numbers
    candidates = _spread(feed.distinct, CANDIDATES * most)
    lengths = [sum(int(part[MASK].sum()) for part in parts) for parts in feed.make(candidates)]
    extremes = {candidates[int(np.argmin(lengths))], candidates[int(np.argmax(lengths))]}
    return sorted(extremes | {*_spread(feed.distinct, most - len(extremes))})


def choose_different(feed: Feed, numbers: Sequence[int], *, first: int, count: int) -> list[int]:
    """`count` of these micro-batches: the first `first`, then always the one farthest from those chosen.

    Two are as far apart as the figure in which they differ most, as a share of what it spans in all.
    """
    figures = np.array([_figures_of(parts) for parts in feed.make(numbers)])
    span = np.ptp(figures, axis=0)
    scaled = figures / np.where(span > 0, span, 1.0)
    chosen = [*range(min(first, len(numbers)))]
    while len(chosen) < min(count, len(numbers)):
        nearest = np.abs(scaled[:, None] - scaled[chosen]).max(axis=2).min(axis=1)
        nearest[chosen] = -1.0
        chosen.append(int(nearest.argmax()))
    return [numbers[place] for place in chosen]


def _spread(distinct: int, most: int) -> list[int]:
    return [int(place) for place in np.linspace(0, distinct - 1, num=min(distinct, most))]


def _figures_of(parts: Sequence[Batch]) -> list[float]:
    """Count each input's elements and those that are not zero, and give their mean, spread and extremes."""
    figures: list[float] = []
    for name in sorted(parts[0]):
        values = np.concatenate([part[name].double().numpy().ravel() for part in parts])
        figures += [values.size, np.count_nonzero(values)]
        figures += [values.mean(), values.std(), values.min(), values.max()] if values.size else [0.0] * 4
    return np.nan_to_num(figures).tolist()
