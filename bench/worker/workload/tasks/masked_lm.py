"""Masked language modelling, as BERT was trained."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import IGNORED, Arrays, Integers
from bench.worker.workload.tasks._tokens import draw, real_positions

MASKED_SHARE = 0.15
"""Share of the real tokens that BERT predicts; of these 80 % become [MASK] and 10 % a random token.

Source: Devlin et al. 2018, arXiv:1810.04805, section 3.1.
"""

MASK_TOKEN = 103
"""[MASK] in BERT's uncased vocabulary; with random weights any fixed token serves."""


class Task:
    """Predicts the tokens that were hidden."""

    head = "AutoModelForMaskedLM"

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """Random tokens, of which some are hidden."""
        vocabulary = settings.vocab_size
        mask = real_positions(lengths, seq_len)
        ids = draw(settings, mask=mask, random=random)
        return hidden(ids, mask, mask_token=MASK_TOKEN % vocabulary, vocabulary=vocabulary, random=random)


def hidden(
    ids: Integers, mask: Integers, *, mask_token: int, vocabulary: int, random: np.random.Generator
) -> Arrays:
    """BERT's masking; `ids` and `mask` are int64 of shape (batch, length)."""
    real = mask.astype(bool)
    chosen = (random.random(ids.shape) < MASKED_SHARE) & real
    chosen[:, 0] = True  # a row without a single label would have an undefined loss
    fate = random.random(ids.shape)
    inputs = ids.copy()
    inputs[chosen & (fate < 0.8)] = mask_token
    replaced = chosen & (fate >= 0.8) & (fate < 0.9)
    inputs[replaced] = random.integers(0, vocabulary, size=int(replaced.sum()))
    return {
        "input_ids": inputs,
        "attention_mask": mask,
        "labels": np.where(chosen, ids, IGNORED),
    }
