"""Seeded synthetic batches, from numpy's generator: torch's would differ between versions."""

import numpy as np

from bench.config import Data
from bench.workload.tasks import INPUTS, Arrays


def synthetic(
    data: Data,
    *,
    task: str,
    vocabulary: int,
    micro_batch: int,
    seq_len: int,
    seed: int,
    rank: int,
) -> list[Arrays]:
    """`data.batches` distinct micro-batches of shape (micro_batch, seq_len), int64, padded on the right.

    The lengths of the rows are uniform in [min_length_share × seq_len, seq_len]. Equal arguments give
    equal batches, whatever the backend, the device or the version of torch.
    """
    random = np.random.default_rng([seed, rank])
    shortest = max(1, round(data.min_length_share * seq_len))
    made = []
    for _ in range(data.batches):
        ids = random.integers(0, vocabulary, size=(micro_batch, seq_len), dtype=np.int64)
        lengths = random.integers(shortest, seq_len + 1, size=(micro_batch, 1))
        mask = (np.arange(seq_len) < lengths).astype(np.int64)
        made.append(INPUTS[task](ids * mask, mask, vocabulary, random))
    return made


def padding_share(batches: list[Arrays]) -> float:
    """Padded positions ÷ all positions."""
    padded = sum(int((batch["attention_mask"] == 0).sum()) for batch in batches)
    return padded / sum(batch["attention_mask"].size for batch in batches)
