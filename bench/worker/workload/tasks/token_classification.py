"""Token classification: a label for each token, as in named-entity recognition."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import IGNORED, Arrays, Integers, TextTask


class Task(TextTask):
    """Predicts a class of every real token."""

    head = "AutoModelForTokenClassification"

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: np.random.Generator) -> Arrays:
        """Random classes."""
        classes = random.integers(0, settings.num_labels, size=ids.shape, dtype=np.int64)
        return {"labels": np.where(mask == 1, classes, IGNORED)}
