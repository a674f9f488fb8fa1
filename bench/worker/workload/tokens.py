"""Attention masks and random tokens, and tokens hidden as BERT's pre-training does."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import IGNORED, Integers, setting

MASKED_SHARE = 0.15
"""Share of the real tokens that BERT predicts; of these 80 % become [MASK] and 10 % a random token.

Source: Devlin et al. 2018, arXiv:1810.04805, section 3.1.
"""


def real_positions(lengths: Integers, seq_len: int | None) -> Integers:
    """The attention mask, int64 of shape (micro_batch, seq_len): 1 where there is a token, padding behind."""
    assert seq_len is not None, "a task over tokens has a length; bench.config.schema sees to it"
    return (np.arange(seq_len) < lengths[:, None]).astype(np.int64)


def padding_token(settings: Any) -> int:
    """The id that pads: the model's own, since some take positions or the last token from it, else 0."""
    token: int = setting(settings, "pad_token_id", 0)
    return token if 0 <= token < setting(settings, "vocab_size") else 0


def draw(settings: Any, *, mask: Integers, random: np.random.Generator) -> Integers:
    """Random ids where `mask` is 1, the padding's, and only there, where it is 0: int64, shaped as `mask`."""
    padding = padding_token(settings)
    ids = random.integers(0, setting(settings, "vocab_size") - 1, size=mask.shape, dtype=np.int64)
    return np.where(mask.astype(bool), _skip(padding, ids), padding)


def _skip(padding: int | None, ids: Integers) -> Integers:
    """Ids out of one fewer, as ids of which none is the padding's."""
    return ids if padding is None else ids + (ids >= padding)


def hidden(
    ids: Integers,
    *,
    eligible: Any,
    mask_token: int,
    vocabulary: int,
    padding: int | None,
    random: np.random.Generator,
) -> tuple[Integers, Integers]:
    """Inputs and labels: of the chosen 15 %, 80 % become the mask, 10 % any token, and 10 % stay.

    A row in which nothing was chosen gets its first eligible token: without a label its loss is undefined.

    Args:
        ids: int64 of shape (batch, length).
        eligible: true where there is a word, of the same shape.
        mask_token: id of the mask.
        vocabulary: how many ids there are.
        padding: the id that no token gets, since ONNX Runtime takes out padding by it; None: there is none.
        random: of this batch.
    """
    chosen = (random.random(ids.shape) < MASKED_SHARE) & eligible
    without = np.flatnonzero(~chosen.any(axis=1) & eligible.any(axis=1))
    chosen[without, eligible[without].argmax(axis=1)] = True
    fate = random.random(ids.shape)
    count = vocabulary if padding is None else vocabulary - 1
    others = _skip(padding, random.integers(0, count, size=ids.shape, dtype=np.int64))
    inputs = np.where(chosen & (fate < 0.8), mask_token, ids)
    inputs = np.where(chosen & (fate >= 0.8) & (fate < 0.9), others, inputs)
    return inputs.astype(np.int64), np.where(chosen, ids, IGNORED)
