"""Predicted figures: results/predicted/, in files and columns of their own, apart from everything measured.

Columns of predicted figures begin with `predicted_`; a bound of 95 % ends in `_low` or `_high`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bench.results import side_files
from bench.results.atomic import write_atomically

FOLDER = "predicted"
"""Within the results."""


COUNTED, TEXTBOOK = "counted", "textbook"
"""What is sent: as libraries were counted to do it, or as a sharding's authors say."""

WEAK, STRONG = "weak", "strong"
"""As many samples on every rank, or as many in all."""


def bounded(name: str) -> tuple[str, str, str]:
    """A column and those of its bounds."""
    return name, f"{name}_low", f"{name}_high"


@dataclass(frozen=True, kw_only=True)
class PredictedFile:
    """One kind of them.

    Attributes:
        what: it holds, for messages.
        texts: columns of text, first.
        numbers: columns of numbers; one may be blank.
        digits: significant ones of a number.
    """

    what: str
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    digits: int = 6

    @property
    def columns(self) -> list[str]:
        """All of them, in order."""
        return [*self.texts, *self.numbers]

    def write(self, path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
        """Replace the file by these rows."""
        table = pd.DataFrame(list(rows), columns=self.columns)
        write_atomically(
            path, table.to_csv(index=False, lineterminator="\n", float_format=f"%.{self.digits}g")
        )

    def read(self, path: Path) -> pd.DataFrame:
        """Read such a file.

        Raises:
            UserError: it is damaged.
        """
        return side_files.read(path, self.columns, self.numbers, what=self.what, blanks=True)


SCALING = PredictedFile(
    what="predictions for many ranks",
    texts=(
        "model",
        "topology",  # of conf/topology/
        "sharding",
        "precision",
        "volume",  # COUNTED or TEXTBOOK
        "scaling",  # WEAK or STRONG
        "basis",  # of the seconds of computing: measured in which file, or assumed
        "command",  # that predicts it again
        "git_commit",
    ),
    numbers=(
        "ranks",
        "micro_batch",
        "seq_len",
        *bounded("predicted_step_s"),
        "predicted_computed_s",
        "predicted_exposed_s",  # that sending makes the step longer
        *bounded("predicted_samples_per_s"),
        *bounded("predicted_efficiency"),  # samples/s of a rank, as a share of those of a rank alone
        "predicted_memory_gib",  # of a rank
        "memory_gib",  # that a rank has
    ),
)
"""`scaling-<model>-<topology>.csv`: a row for each sharding, scaling and world size."""

CHECKS = PredictedFile(
    what="predictions beside measurements",
    texts=(
        "machine",
        "model",
        "backend",
        "sharding",
        "link",  # what ranks send over: loopback, or a rate such as `1 Gbit/s`
        "quantity",  # bytes sent by a rank in a step, memory of a rank, or seconds of a step
        "unit",
        "measured_in",  # results file, below results/
        "git_commit",  # of that measurement
    ),
    numbers=(
        "ranks",
        *bounded("measured"),
        *bounded("predicted"),
        "error",  # predicted / measured - 1
    ),
    digits=12,  # of bytes, which are counted
)
"""`checks.csv`: a row for each point that was both predicted and measured."""

PUBLISHED = PredictedFile(
    what="predictions beside published figures",
    texts=("model", "hardware", "engine", "source", "why"),
    numbers=(
        "ranks",
        "micro_batch",
        "published_ratio",  # samples/s of ZeRO stage 1 over those of DDP
        *bounded("predicted_ratio"),
        "error",  # predicted / published - 1
    ),
)
"""`published.csv`: what was published of ZeRO stage 1 over DDP, and what is predicted of it."""
