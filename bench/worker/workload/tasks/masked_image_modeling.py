"""Masked image modelling: the pixels of hidden patches, as SimMIM pre-trains."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, ImageTask, setting

MASKED_SHARE = 0.6
"""Share of the patches that are hidden. Source: Xie et al. 2021, arXiv:2111.09886, section 4.1."""


class Task(ImageTask):
    """Predicts the pixels of patches that were hidden; the picture itself is the label."""

    head = "AutoModelForMaskedImageModeling"

    def targets(self, settings: Any, shape: tuple[int, int, int, int], random: np.random.Generator) -> Arrays:
        """Which patches are hidden, equally many in each picture: bool of shape (micro_batch, patches)."""
        count, _, *sides = shape
        rows, columns = np.array(sides) // np.broadcast_to(setting(settings, "patch_size"), 2)
        places = random.random((count, rows * columns)).argsort(axis=1)
        return {"bool_masked_pos": places < max(1, round(MASKED_SHARE * rows * columns))}
