"""Seeded synthetic batches, from numpy's generator: torch's would differ between versions."""

from typing import Any

import numpy as np

from bench.config.data import SHORTEST_SHARE, Data
from bench.worker.workload import tasks
from bench.worker.workload.tasks import Arrays, Integers


def draw_lengths(data: Data, *, count: int, seq_len: int, random: np.random.Generator) -> Integers:
    """Lengths of `count` samples, int64, each from 1 to `seq_len`."""
    if data.lengths == "full":
        return np.full(count, seq_len, dtype=np.int64)
    shortest = max(1, round(SHORTEST_SHARE * seq_len))
    return random.integers(shortest, seq_len + 1, size=count)


def synthetic(
    data: Data,
    *,
    task: str,
    settings: Any,
    count: int,
    micro_batch: int,
    seq_len: int | None,
    seed: int,
    rank: int,
) -> list[Arrays]:
    """`count` micro-batches, others for every rank; `seq_len` is None where samples have no length."""
    random = np.random.default_rng([seed, rank])
    made = []
    for _ in range(count):
        real = draw_lengths(data, count=micro_batch, seq_len=seq_len or 1, random=random)
        made.append(tasks.make(task).draw(settings, lengths=real, seq_len=seq_len, random=random))
    return made


def padding_share(batches: list[Arrays]) -> float | None:
    """Padded positions ÷ all positions; None where nothing is padded by position."""
    if "attention_mask" not in batches[0]:
        return None
    padded = sum(int((batch["attention_mask"] == 0).sum()) for batch in batches)
    return padded / sum(batch["attention_mask"].size for batch in batches)
