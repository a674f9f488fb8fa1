"""Images to train on, made from a seed: what they show does not matter, what it takes to decode them does."""

import json
from pathlib import Path

import numpy as np

CLASSES, IMAGES = ("a", "b"), 256

WIDTH, HEIGHT = 500, 375
"""Pixels. ImageNet's images have some 469 x 387 on average (Russakovsky et al. 2015, arXiv:1409.0575)."""

GRID = 25  # pixels between two random colours; between them the colours change smoothly, as in a photograph
TRAINED_SIZE = 224  # pixels to which the processor scales them, as that of ViT-B/16 does
MADE = "made.json"  # lies there when all images do


def make_images(folder: Path, count: int = IMAGES) -> None:
    """Make JPEG files, `train/` with a folder per class, and `processor/`, unless they are there."""
    wanted = {"images": count, "width": WIDTH, "height": HEIGHT, "size": TRAINED_SIZE}
    finished = folder / MADE
    if finished.exists() and json.loads(finished.read_text(encoding="utf-8")) == wanted:
        return
    from PIL import Image  # a tenth of a second that no other plan needs

    for number in range(count):
        random = np.random.default_rng(number)
        colours = random.integers(0, 256, (HEIGHT // GRID, WIDTH // GRID, 3), dtype=np.uint8)
        picture = Image.fromarray(colours).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
        place = folder / "train" / CLASSES[number % len(CLASSES)]
        place.mkdir(parents=True, exist_ok=True)
        picture.save(place / f"{number}.jpg", quality=90)
    settings = {  # of google/vit-base-patch16-224
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "do_rescale": True,
        "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "size": {"height": TRAINED_SIZE, "width": TRAINED_SIZE},
    }
    processor = folder / "processor"
    processor.mkdir(exist_ok=True)
    (processor / "preprocessor_config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    finished.write_text(json.dumps(wanted), encoding="utf-8")
