"""Image classification: one class for an image, which is opened and scaled when it is asked for."""

from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Image

from bench.plugins.hf.preparation import Samples
from bench.plugins.hf.preparation._labels import classes
from bench.plugins.hf.preparation._media import MediaPreparation
from bench.worker.workload.tasks import Arrays


class Preparation(MediaPreparation):
    """Works like run_image_classification.py of transformers in evaluation: the model's own processor.

    The script's random crops and flips need torchvision; their cost is not in this preparation.
    """

    columns = ("image", "label")
    processor_class = "AutoImageProcessor"
    column, kind, kinds, feature = "image", "an image", "images", Image

    def prepare(self, dataset: Any) -> Samples:
        """Images as the processor makes them, float32 of shape (channels, height, width)."""
        self.numbers = classes(dataset, "label", self)
        self.keep(dataset)
        return self

    def __getitem__(self, numbers: list[int]) -> Arrays:
        rows = self.dataset[numbers]
        labels = np.array([self.numbers[label] for label in rows["label"]], dtype=np.int64)
        return {"pixel_values": self.read(rows["image"]), "labels": labels}

    def open(self, file: Any) -> Any:
        """The picture, in colours."""
        from PIL import Image as Pillow  # only where there are images

        with Pillow.open(file) as opened:
            return opened.convert("RGB")

    def convert(self, opened: Any, _: Any) -> npt.NDArray[Any]:
        """Pixels of shape (channels, height, width)."""
        return np.asarray(self.processor(opened, return_tensors="np")["pixel_values"][0])
