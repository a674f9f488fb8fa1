"""Image classification: one label for each picture, as in ImageNet."""

from typing import Any

import numpy as np

from bench.worker.workload.tasks import Arrays, Integers


class Task:
    """Predicts a class of the picture. A picture has no length, and nothing of it is padding."""

    head = "AutoModelForImageClassification"

    def synthetic(
        self,
        settings: Any,
        *,
        lengths: Integers,
        seq_len: int | None,  # noqa: ARG002 - bench.config.schema sees to it that there is none
        random: np.random.Generator,
    ) -> Arrays:
        """Normal noise, as pixels are after normalisation: float32 (micro_batch, channels, height, width)."""
        height, width = np.broadcast_to(settings.image_size, 2).tolist()
        pixels = (len(lengths), settings.num_channels, height, width)
        return {
            "pixel_values": random.standard_normal(pixels, dtype=np.float32),
            "labels": random.integers(0, settings.num_labels, size=len(lengths), dtype=np.int64),
        }
