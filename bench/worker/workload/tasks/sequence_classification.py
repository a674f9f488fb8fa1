"""Sequence classification: one label for each text, as in GLUE."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, Integers
from bench.worker.workload.tasks._text import TextTask


class Task(TextTask):
    """Predicts a class of the whole text; decoders read it off the last real token."""

    head = "AutoModelForSequenceClassification"

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: np.random.Generator) -> Arrays:
        """Random classes, shape (micro_batch,)."""
        del mask
        return {"labels": random.integers(0, settings.num_labels, size=len(ids), dtype=np.int64)}
