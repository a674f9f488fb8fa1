"""What becomes of trained models that are exported: `results/export/<comparison>.csv`, a row per backend."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bench.results import side_files
from bench.results.atomic import write_atomically

COLUMNS = (
    *side_files.DESCRIBED,
    "status",  # ok, diverged, or what became of the export
    "message",
    "exporter",
    "runtime",
    "export_s",
    "exported_mib",
    "output_scale",  # the largest absolute output of the model in PyTorch
    "difference",  # the largest absolute one between ONNX Runtime's output and that
    "difference_from_reference",  # likewise, from the reference's exported model
    "inferences",
    "inference_ms",  # of one micro-batch: median
    "inference_low_ms",  # of the median's 95 % interval
    "inference_high_ms",
)
NUMBERS = (
    "export_s",
    "exported_mib",
    "output_scale",
    "difference",
    "difference_from_reference",
    "inferences",
    "inference_ms",
    "inference_low_ms",
    "inference_high_ms",
)


def path_of(results: Path) -> Path:
    """The file about exported models that belongs to a results file."""
    return results.parent / "export" / results.name


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the file by these rows."""
    table = pd.DataFrame(list(rows), columns=list(COLUMNS))
    write_atomically(path, table.to_csv(index=False, lineterminator="\n", float_format="%.6g"))


def read(path: Path) -> pd.DataFrame:
    """Read such a file.

    Raises:
        UserError: it is damaged.
    """
    return side_files.read(path, COLUMNS, NUMBERS, what="what became of exported models", blanks=True)
