"""The files of an exported model, and what is said of them; imports no framework."""

import msgspec

MODEL, TENSORS, CHECKED = "model.onnx", "tensors.safetensors", "checked.json"

OUTPUT = "output"  # the name of PyTorch's output in the file of tensors


class CheckedExport(msgspec.Struct, frozen=True, kw_only=True):
    """What ONNX Runtime makes of an exported model."""

    runtime: str  # its version
    difference: float | None = None  # the largest absolute one from the outputs of the model in PyTorch
    # the largest absolute one from the outputs of the reference's exported model; None if its inputs differ
    from_reference: float | None = None
    scale: float | None = None  # the largest absolute output, for comparison
    latencies: list[float] = []  # seconds of each inference that was timed, of one micro-batch
    failure: str = ""  # why it could not run; empty if it could


def input_key(name: str) -> str:
    """The name of an input there."""
    return f"input {name}"
