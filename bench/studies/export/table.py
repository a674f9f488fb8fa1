"""What becomes of trained models that are exported: a row per backend."""

from bench.results.columns import REAL, TEXT
from bench.results.side_files import SideFile

TABLE = SideFile(
    kind="export",
    what="what became of exported models",
    columns={
        "status": TEXT,  # ok, diverged, or what became of the export
        "message": TEXT,
        "exporter": TEXT,
        "runtime": TEXT,
        "export_s": REAL,
        "exported_mib": REAL,
        "output_scale": REAL,  # the largest absolute output of the model in PyTorch
        "difference": REAL,  # the largest absolute one between ONNX Runtime's output and that
        "difference_from_reference": REAL,  # the same from the reference's exported model
        "inferences": REAL,
        "inference_ms": REAL,  # of one micro-batch: median
        "inference_low_ms": REAL,  # of the median's 95 % interval
        "inference_high_ms": REAL,
    },
    blanks=True,
)
