"""Token classification: a label for each token, as in named-entity recognition."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import IGNORED, Arrays, Integers
from bench.worker.workload.tasks._tokens import draw, real_positions


class Task:
    """Predicts a class of every real token."""

    head = "AutoModelForTokenClassification"

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """Random tokens and classes."""
        mask = real_positions(lengths, seq_len)
        ids = draw(settings, mask=mask, random=random)
        classes = random.integers(0, settings.num_labels, size=mask.shape, dtype=np.int64)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": np.where(mask.astype(bool), classes, IGNORED),
        }
