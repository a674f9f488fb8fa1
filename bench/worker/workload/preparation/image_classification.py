"""Image classification: one class for an image, which is opened and scaled when it is asked for."""

from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Image

from bench.errors import UserError
from bench.worker.workload.preparation import Samples
from bench.worker.workload.preparation._labels import classes
from bench.worker.workload.preparation._media import MediaPreparation
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
        pixels = np.asarray(self.processor(opened, return_tensors="np")["pixel_values"][0])
        *_, height, width = pixels.shape
        if (size := getattr(self.settings, "image_size", None)) is None:
            return pixels
        sides = np.broadcast_to(size, 2).tolist()
        if [height, width] != sides:
            raise UserError(
                f"data.processor={self.data.processor} makes images of {height} x {width}, but "
                f"model.name={self.model} takes {sides[0]} x {sides[1]}; choose the model's own processor, "
                f"or set ++model.config.image_size={height}."
            )
        return pixels
