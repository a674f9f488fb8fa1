"""Extractive question answering: where in the text the answer starts and ends, as in SQuAD."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, Integers
from bench.worker.workload.tasks._tokens import draw, real_positions


class Task:
    """Predicts the first and the last token of the answer."""

    head = "AutoModelForQuestionAnswering"

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """Random tokens, and a random span of real ones; both ends have shape (micro_batch,)."""
        mask = real_positions(lengths, seq_len)
        ids = draw(settings, mask=mask, random=random)
        starts = random.integers(0, lengths, dtype=np.int64)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "start_positions": starts,
            "end_positions": random.integers(starts, lengths, dtype=np.int64),
        }
