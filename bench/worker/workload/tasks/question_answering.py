"""Extractive question answering: where in the text the answer starts and ends, as in SQuAD."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, Integers, TextTask


class Task(TextTask):
    """Predicts the first and the last token of the answer."""

    head = "AutoModelForQuestionAnswering"

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: np.random.Generator) -> Arrays:
        """A random span of real tokens; both ends have shape (micro_batch,)."""
        del settings, ids
        lengths = mask.sum(axis=1)
        starts = random.integers(0, lengths, dtype=np.int64)
        return {"start_positions": starts, "end_positions": random.integers(starts, lengths, dtype=np.int64)}
