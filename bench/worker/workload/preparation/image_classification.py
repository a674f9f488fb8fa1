"""Image classification: one class for an image, which is opened and scaled when it is asked for."""

from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Image

from bench.errors import UserError
from bench.worker.workload import preparation
from bench.worker.workload.preparation import Context, Samples
from bench.worker.workload.preparation.labels import classes
from bench.worker.workload.preparation.media import MediaFiles
from bench.worker.workload.tasks import Arrays


class Preparation(preparation.Preparation):
    """Works like run_image_classification.py of transformers in evaluation: the model's own processor.

    The script's random crops and flips need torchvision; their cost is not in this preparation.
    """

    columns = ("image", "label")
    processor = "AutoImageProcessor"

    def samples(self, dataset: Any, context: Context) -> Samples:
        """Images as the processor makes them, float32 of shape (channels, height, width)."""
        numbers = classes(dataset, "label", context)
        return Images(dataset, numbers, context)


class Images(MediaFiles):
    """Pixels and labels."""

    column, kind, kinds = "image", "an image", "images"

    def __init__(self, dataset: Any, numbers: dict[Any, int], context: Context) -> None:
        super().__init__(dataset, Image, context)
        self.numbers = numbers

    def __getitem__(self, numbers: list[int]) -> list[Arrays]:
        rows = self.dataset[numbers]
        return [
            {"pixel_values": self.read(image), "labels": np.array(self.numbers[label], dtype=np.int64)}
            for image, label in zip(rows["image"], rows["label"], strict=True)
        ]

    def open(self, file: Any) -> Any:
        """The picture, in colours."""
        from PIL import Image as Pillow  # only where there are images

        with Pillow.open(file) as opened:
            return opened.convert("RGB")

    def convert(self, opened: Any, _: Any) -> npt.NDArray[Any]:
        """Pixels of shape (channels, height, width)."""
        pixels = np.asarray(self.context.processor(opened, return_tensors="np")["pixel_values"][0])
        self._check_size(pixels.shape)
        return pixels

    def _check_size(self, shape: tuple[int, ...]) -> None:
        """Compare with what the model says that it takes, where it says so."""
        size = getattr(self.context.settings, "image_size", None)
        if isinstance(size, int) and shape[1:] != (size, size):
            raise UserError(
                f"data.processor={self.context.data.processor} makes images of {shape[1]} x {shape[2]}, but "
                f"model.name={self.context.model} takes {size} x {size}; choose the model's own processor, "
                f"or set ++model.config.image_size={shape[1]}."
            )
