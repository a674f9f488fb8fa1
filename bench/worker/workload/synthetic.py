"""Seeded synthetic batches, from numpy's generator: torch's would differ between versions."""

from typing import Any

import numpy as np

from bench.config.data import Data
from bench.worker.workload import lengths, tasks
from bench.worker.workload.tasks import Arrays


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
    """`count` distinct micro-batches of `micro_batch` samples, others for every rank.

    Equal arguments give equal batches, whatever the backend, the device or the version of torch.

    Args:
        data: says how long the samples are.
        task: what is learnt.
        settings: the model's transformers configuration.
        count: of the micro-batches.
        micro_batch: samples of each.
        seq_len: positions of a sample, padding included; None where it has none.
        seed: of the comparison.
        rank: of the group.
    """
    random = np.random.default_rng([seed, rank])
    made = []
    for _ in range(count):
        real = lengths.draw(data, count=micro_batch, seq_len=seq_len or 1, random=random)
        made.append(tasks.make(task).synthetic(settings, lengths=real, seq_len=seq_len, random=random))
    return made


def padding_share(batches: list[Arrays]) -> float | None:
    """Padded positions ÷ all positions; None where nothing is padded by position."""
    if "attention_mask" not in batches[0]:
        return None
    padded = sum(int((batch["attention_mask"] == 0).sum()) for batch in batches)
    return padded / sum(batch["attention_mask"].size for batch in batches)
