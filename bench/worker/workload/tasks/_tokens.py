"""Attention masks and random tokens, which all tasks over tokens need."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Integers


def real_positions(lengths: Integers, seq_len: int | None) -> Integers:
    """The attention mask, int64 of shape (micro_batch, seq_len): 1 where there is a token, padding behind."""
    assert seq_len is not None, "a task over tokens has a length; bench.config.schema sees to it"
    return (np.arange(seq_len) < lengths[:, None]).astype(np.int64)


def padding_token(settings: Any) -> int:
    """The id that pads: the model's own, since some take positions or the last token from it, else 0."""
    token = getattr(settings, "pad_token_id", None)
    return token if token is not None and 0 <= token < settings.vocab_size else 0


def draw(settings: Any, *, mask: Integers, random: np.random.Generator) -> Integers:
    """Random ids where `mask` is 1, the padding's, and only there, where it is 0: int64, shaped as `mask`."""
    padding = padding_token(settings)
    ids = random.integers(0, settings.vocab_size - 1, size=mask.shape, dtype=np.int64)
    return np.where(mask.astype(bool), skip(padding, ids), padding)


def skip(padding: int | None, ids: Integers) -> Integers:
    """Ids out of one fewer, as ids of which none is the padding's."""
    return ids if padding is None else ids + (ids >= padding)
