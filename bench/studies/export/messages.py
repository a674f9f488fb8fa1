"""What a rank is asked for after training: to export its model."""

from typing import ClassVar

from bench.launch.messages import Answer, Request


class ModelExported(Answer, frozen=True, kw_only=True):
    """Rank 0 has written its trained model as ONNX; other ranks have nothing to report."""

    bytes: int = 0  # of the model's files
    seconds: float = 0.0  # that exporting took
    exporter: str = ""  # its version, and the opset


class ExportModel(Request[ModelExported], frozen=True, tag="export"):
    """Export the trained model; after everything else in its launch that needs it."""

    folder: str  # on rank 0's node, where it goes with its inputs and outputs
    answered_by: ClassVar[str] = "bench.studies.export.ranks"
