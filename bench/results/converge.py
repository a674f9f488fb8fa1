"""Held-out losses: `results/converge/<comparison>.csv`, a row per backend, launch and evaluation."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bench.results import side_files
from bench.results.atomic import write_atomically

NUMBERS = (
    "launch",
    "seed",  # of the launch: of the order of the data, and of dropout
    "evaluation",  # from 0, which is before the first step
    "steps",  # trained so far, the first step and warm-up included
    "seconds",  # of the timed blocks so far; slowest rank
    "seconds_with_start",  # the same with set-up, first step and warm-up
    "disturbed",  # 1 or 0: the block before it was contaminated
    "held_out_loss",  # mean over all tokens to predict, by PyTorch
    "target_loss",  # that was to be reached
    "margin_loss",  # within which final losses are equivalent
)
WHOLE = ("launch", "seed", "evaluation", "steps", "disturbed")
COLUMNS = (*side_files.DESCRIBED, *NUMBERS)


def path_of(results: Path) -> Path:
    """The file about held-out losses that belongs to a results file."""
    return results.parent / "converge" / results.name


def write(path: Path, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Replace the file by these rows."""
    table = pd.DataFrame(list(rows), columns=list(COLUMNS))
    write_atomically(path, table.to_csv(index=False, lineterminator="\n", float_format="%.6g"))


def read(path: Path) -> pd.DataFrame:
    """Read such a file.

    Raises:
        UserError: it is damaged.
    """
    table = side_files.read(path, COLUMNS, NUMBERS, what="held-out losses")
    return table.astype(dict.fromkeys(WHOLE, int))
