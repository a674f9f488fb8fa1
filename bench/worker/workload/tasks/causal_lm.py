"""Causal language modelling: the next token, at every real position."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import IGNORED, Arrays, Integers
from bench.worker.workload.tasks._tokens import draw, real_positions


class Task:
    """Predicts the next token; the model shifts the labels itself."""

    head = "AutoModelForCausalLM"

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """Random tokens."""
        mask = real_positions(lengths, seq_len)
        ids = draw(settings, mask=mask, random=random)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": np.where(mask.astype(bool), ids, IGNORED),
        }
