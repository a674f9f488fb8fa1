"""Sequence classification: one label for each text, as in GLUE."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, Integers
from bench.worker.workload.tasks._tokens import draw, real_positions


class Task:
    """Predicts a class of the whole text; decoders read it off the last real token."""

    head = "AutoModelForSequenceClassification"

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """Random tokens and classes; the labels have shape (micro_batch,)."""
        mask = real_positions(lengths, seq_len)
        return {
            "input_ids": draw(settings, mask=mask, random=random),
            "attention_mask": mask,
            "labels": random.integers(0, settings.num_labels, size=len(lengths), dtype=np.int64),
        }
