"""Semantic segmentation: a class of every pixel, as in ADE20K."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, ImageTask


class Task(ImageTask):
    """Predicts a class of every pixel; the model enlarges its own, coarser map."""

    head = "AutoModelForSemanticSegmentation"

    def targets(self, settings: Any, shape: tuple[int, int, int, int], random: np.random.Generator) -> Arrays:
        """Random classes, int64 of shape (micro_batch, height, width)."""
        count, _, *sides = shape
        return {"labels": random.integers(0, settings.num_labels, size=(count, *sides), dtype=np.int64)}
