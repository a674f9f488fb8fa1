"""What becomes of trained models that are exported: `results/export/<comparison>.csv`, a row per backend."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bench.errors import UserError
from bench.results.atomic import write_atomically

COLUMNS = (
    "started_at",
    "git_commit",
    "config_hash",
    "environment_hash",
    "backend",
    "stack",
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
    try:
        text = set(COLUMNS) - set(NUMBERS)
        table = pd.read_csv(
            path,
            dtype=dict.fromkeys(text, object),
            keep_default_na=False,
            na_values={one: [""] for one in NUMBERS},
        )
        if tuple(table.columns) != COLUMNS or table.empty:
            raise ValueError("its columns are others, or it is empty")
        table = table.astype(dict.fromkeys(NUMBERS, float))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as what became of exported models ({error})",
            "restore it with `git checkout`, or measure the comparison again",
        ) from None
    return table
