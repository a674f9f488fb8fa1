"""What all tasks have in common whose inputs are pictures."""

from typing import Any

import numpy as np

from bench.worker.workload import tasks
from bench.worker.workload.tasks import Arrays, Integers, setting

IMAGE_SIZE = 224
"""Pixels of a side where the architecture takes any: as most are trained with ImageNet."""


class ImageTask(tasks.Task):
    """Random pictures, which have no length and no padding; a task's own part is `targets`."""

    def synthetic(
        self,
        settings: Any,
        *,
        lengths: Integers,
        seq_len: int | None,  # noqa: ARG002 - bench.config.schema sees to it that there is none
        random: np.random.Generator,
    ) -> Arrays:
        """Normal noise, as pixels are after normalisation: float32 (micro_batch, channels, height, width)."""
        height, width = np.broadcast_to(setting(settings, "image_size", IMAGE_SIZE), 2).tolist()
        shape = (len(lengths), setting(settings, "num_channels", 3), height, width)
        pixels = random.standard_normal(shape, dtype=np.float32)
        return {"pixel_values": pixels} | self.targets(settings, shape, random)

    def targets(self, settings: Any, shape: tuple[int, int, int, int], random: np.random.Generator) -> Arrays:
        """What is learnt of pictures of shape (micro_batch, channels, height, width)."""
        raise NotImplementedError
