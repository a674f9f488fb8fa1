"""Sequence classification: one label for each text, as in GLUE."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, Integers, TextTask, draw_labels, setting


class Task(TextTask):
    """Predicts a class of the whole text; decoders read it off the last real token."""

    head = "AutoModelForSequenceClassification"

    def targets(self, settings: Any, ids: Integers, mask: Integers, random: np.random.Generator) -> Arrays:
        """Random labels of whole texts."""
        del mask
        setting(settings, "pad_token_id")  # by which decoders find the last real token
        return draw_labels(settings, count=len(ids), random=random)
