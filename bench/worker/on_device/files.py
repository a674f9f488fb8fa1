"""The files that training as on a device starts from, and what is written beside them about them."""

from pathlib import Path

import msgspec

TRAINING, OPTIMIZER, CHECKPOINT = "training_model.onnx", "optimizer_model.onnx", "checkpoint"
"""As `onnxruntime.training.artifacts.generate_artifacts` calls them."""

ARTIFACTS = (TRAINING, OPTIMIZER, CHECKPOINT)
"""What a device has to have."""

BATCHES = "batches.safetensors"


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is known of the model and its data where the artifacts are made.

    Attributes:
        parameters: of the model, tied ones counted once.
        trainable: those that are trained.
        padding_share: of the batches; None where samples have no length.
        batches: how many distinct ones there are.
        parts: in which the batches of the others were divided.
        inputs: of the training model, in order.
        names: by the name that a trained parameter has in the training model, the one it has in the model.
        optimizer: attributes of every node of the optimizer model that updates, read back from its file.
    """

    parameters: int
    trainable: int
    padding_share: float | None
    batches: int
    parts: int
    inputs: list[str]
    names: dict[str, str]
    optimizer: dict[str, float | int]


def batch_key(number: int, name: str) -> str:
    """Of an input of a batch, in the file of all batches."""
    return f"{number} {name}"


def artifact_bytes(folder: Path) -> int:
    """Size on disk of what a device has to have."""
    return sum((folder / name).stat().st_size for name in ARTIFACTS)
