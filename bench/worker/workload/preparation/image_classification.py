"""Image classification: one class for an image, which is opened and scaled when it is asked for."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Image

from bench.errors import UserError
from bench.worker.workload.preparation import Context, Samples, stacked
from bench.worker.workload.preparation.labels import classes
from bench.worker.workload.preparation.source import first_words
from bench.worker.workload.tasks import Arrays


class Preparation:
    """As transformers' run_image_classification.py does for evaluation: the model's own image processor.

    The script's random crops and flips need torchvision; their cost is not in this preparation.
    """

    columns = ("image", "label")
    optional: tuple[str, ...] = ()
    processor = "AutoImageProcessor"

    def samples(self, dataset: Any, context: Context) -> Samples:
        """Images as the processor makes them, float32 of shape (channels, height, width)."""
        numbers = classes(dataset, "label", context)
        try:
            undecoded = dataset.cast_column("image", Image(decode=False))
        except Exception as error:
            raise UserError(
                f"column {context.data.columns.get('image', 'image')} of data.path={context.data.path} holds "
                f"no images ({first_words(error)}); set ++data.columns={{image: …}}."
            ) from error
        return Images(undecoded, numbers, context)

    def batch(self, samples: Sequence[Arrays], context: Context, random: np.random.Generator) -> Arrays:
        """The samples, stacked."""
        del context, random
        return stacked(samples)


class Images:
    """Decodes, converts and scales on the fly."""

    def __init__(self, dataset: Any, numbers: dict[Any, int], context: Context) -> None:
        self.dataset = dataset
        self.numbers = numbers
        self.context = context

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, numbers: list[int]) -> list[Arrays]:
        rows = self.dataset[numbers]
        return [
            {"pixel_values": self._pixels(image), "labels": np.array(self.numbers[label], dtype=np.int64)}
            for image, label in zip(rows["image"], rows["label"], strict=True)
        ]

    def _pixels(self, image: dict[str, Any]) -> npt.NDArray[np.float32]:
        from PIL import Image as Pillow  # only where there are images

        name = (image or {}).get("path") or "an image"
        try:
            content = image["bytes"]
            with Pillow.open(io.BytesIO(content) if content is not None else image["path"]) as opened:
                picture = opened.convert("RGB")
        except Exception as error:
            raise UserError(
                f"{name} of data.path={self.context.data.path} cannot be read as an image "
                f"({first_words(error)}); replace it or take it away."
            ) from error
        pixels = np.asarray(self.context.processor(picture, return_tensors="np")["pixel_values"][0])
        self._check_size(pixels.shape)
        return pixels.astype(np.float32, copy=False)

    def _check_size(self, shape: tuple[int, ...]) -> None:
        """Compare with what the model says that it takes, where it says so."""
        size = getattr(self.context.settings, "image_size", None)
        if isinstance(size, int) and shape[1:] != (size, size):
            raise UserError(
                f"data.processor={self.context.data.processor} makes images of {shape[1]} x {shape[2]}, but "
                f"model.name={self.context.model} takes {size} x {size}; choose the model's own processor, "
                f"or set ++model.config.image_size={shape[1]}."
            )
