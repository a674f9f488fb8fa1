"""Intervals of time: what many of them cover together, and how much of one others cover."""

import bisect
from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
"""Start and end, in nanoseconds of the machine's clock."""


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Join intervals into ones that do not overlap, in order."""
    apart: list[Interval] = []
    for start, end in sorted(intervals):
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end))
        else:
            apart.append((start, end))
    return apart


def overlap(interval: Interval, others: Sequence[Interval]) -> int:
    """How much of an interval the others cover; they are in order and do not overlap."""
    start, end = interval
    covered = 0
    for place in range(max(0, bisect.bisect_left(others, (start,)) - 1), len(others)):
        if others[place][0] >= end:
            break
        covered += max(0, min(end, others[place][1]) - max(start, others[place][0]))
    return covered
