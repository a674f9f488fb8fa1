"""How long samples are before they are padded: ORT's optimisations of sparse labels and embeddings use it."""

import numpy as np

from bench.config import Data
from bench.workload.tasks import Integers


def draw(data: Data, *, count: int, seq_len: int, random: np.random.Generator) -> Integers:
    """Lengths of `count` samples, int64, each from 1 to `seq_len`."""
    if data.lengths == "full":
        return np.full(count, seq_len, dtype=np.int64)
    shortest = max(1, round(data.min_length_share * seq_len))
    return random.integers(shortest, seq_len + 1, size=count)
