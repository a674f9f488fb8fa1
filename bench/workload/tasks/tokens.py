"""What the tasks over tokens share."""

import numpy as np

from bench.workload.tasks import Integers


def real_positions(lengths: Integers, seq_len: int | None) -> Integers:
    """The attention mask, int64 of shape (micro_batch, seq_len): 1 where there is a token, padding behind."""
    assert seq_len is not None, "a task over tokens has a length; bench.config sees to it"
    return (np.arange(seq_len) < lengths[:, None]).astype(np.int64)
