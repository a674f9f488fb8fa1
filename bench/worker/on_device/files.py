"""The files that training as on a device starts from, and what is written beside them about them."""

from typing import Any

import msgspec

TRAINING, OPTIMIZER, CHECKPOINT = "training_model.onnx", "optimizer_model.onnx", "checkpoint"
"""What `onnxruntime.training.artifacts.generate_artifacts` calls them."""

ARTIFACTS = (TRAINING, OPTIMIZER, CHECKPOINT)  # what a device has to have
BATCHES = "batches.safetensors"


class DeviceFiles(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is known of the model and its data where the artifacts are made."""

    facts: dict[str, Any]  # by the names of `bench.launch.messages.Built`
    batches: int  # how many distinct micro-batches there are, or parts of them
    inputs: list[str]  # of the training model, in order
    names: dict[str, str]  # from a trained parameter's name in the training model to that in the model
    optimizer: dict[str, float | int]  # attributes of every node that updates, read back from its file


def batch_key(number: int, name: str) -> str:
    """The key of a batch's input in the file of all batches."""
    return f"{number} {name}"
