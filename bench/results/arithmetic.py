"""The arithmetic of one block: its counts, seconds and bytes become the figures of a row."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", float, Floats)


def samples_per_s(steps: Number, global_batch: Number, seconds: Number) -> Number:
    """Throughput of a block over all ranks; `seconds` are those of the slowest one."""
    return steps * global_batch / seconds


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of at least one value."""
    return sum(values) / len(values)


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None without any."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def sum_of_all(values: Sequence[float | None]) -> float | None:
    """The sum; None if a value is missing: the sum of the rest would be too low."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def search_resolution(micro_batch: int) -> int:
    """Samples beside this micro-batch that the search for the largest one leaves out: 1, or 3 % if more."""
    return max(1, micro_batch // 32)


def mib(size_bytes: float) -> float:
    """Bytes as MiB (2**20)."""
    return size_bytes / 2**20
