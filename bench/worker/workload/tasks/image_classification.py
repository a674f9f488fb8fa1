"""Image classification: one label for each picture, as in ImageNet."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, ImageTask, draw_labels


class Task(ImageTask):
    """Predicts a class of the picture."""

    head = "AutoModelForImageClassification"

    def targets(self, settings: Any, shape: tuple[int, int, int, int], random: np.random.Generator) -> Arrays:
        """Random labels."""
        return draw_labels(settings, count=shape[0], random=random)
