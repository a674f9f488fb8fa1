"""The files of an exported model, and what is said of them; imports no framework."""

import msgspec

MODEL, TENSORS, CHECKED = "model.onnx", "tensors.safetensors", "checked.json"


class CheckedExport(msgspec.Struct, frozen=True, kw_only=True):
    """What ONNX Runtime makes of an exported model.

    Attributes:
        runtime: its version.
        difference: from the outputs of the same model in PyTorch, the largest absolute one.
        from_reference: from the outputs of the reference's exported model, the largest absolute one; None if
            its inputs were others.
        scale: the largest absolute output, for comparison.
        latencies: seconds of each inference that was timed, of one micro-batch.
        failure: why it could not run; empty if it could.
    """

    runtime: str
    difference: float | None = None
    from_reference: float | None = None
    scale: float | None = None
    latencies: list[float] = []
    failure: str = ""


def input_key(name: str) -> str:
    """The key of an input in the file of tensors."""
    return f"input {name}"


def output_key() -> str:
    """The key of PyTorch's output."""
    return "output"
