"""Masked language modelling, as BERT was trained."""

from typing import Any

import numpy as np

from bench.worker.workload.masking import hidden
from bench.worker.workload.tasks import Arrays, Integers
from bench.worker.workload.tasks._tokens import draw, padding_token, real_positions

MASK_TOKEN = 103
"""[MASK] in BERT's uncased vocabulary; with random weights any fixed token serves."""


class Task:
    """Predicts the tokens that were hidden."""

    head = "AutoModelForMaskedLM"

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """Random tokens, of which some are hidden."""
        padding = padding_token(settings)
        mask = real_positions(lengths, seq_len)
        mask_token = MASK_TOKEN % settings.vocab_size
        inputs, labels = hidden(
            draw(settings, mask=mask, random=random),
            eligible=mask == 1,
            mask_token=mask_token if mask_token != padding else mask_token + 1,
            vocabulary=settings.vocab_size,
            padding=padding,
            random=random,
        )
        return {"input_ids": inputs, "attention_mask": mask, "labels": labels}
