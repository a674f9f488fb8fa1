"""What becomes of saved training states: `results/checkpoint/<comparison>.csv`, a row per backend."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bench.results import side_files
from bench.results.atomic import write_atomically

NUMBERS = (
    "steps",  # that were taken before the save
    "save_s",
    "load_s",
    "checkpoint_mib",  # on disk, all ranks
    "difference",  # the largest relative one of losses and gradient norms after loading, from those without
)
COLUMNS = (*side_files.DESCRIBED, "status", "message", *NUMBERS)


def path_of(results: Path) -> Path:
    """The file about checkpoints that belongs to a results file."""
    return results.parent / "checkpoint" / results.name


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the file by these rows."""
    table = pd.DataFrame(list(rows), columns=list(COLUMNS))
    write_atomically(path, table.to_csv(index=False, lineterminator="\n", float_format="%.6g"))


def read(path: Path) -> pd.DataFrame:
    """Read such a file.

    Raises:
        UserError: it is damaged.
    """
    return side_files.read(path, COLUMNS, NUMBERS, what="what became of checkpoints", blanks=True)
