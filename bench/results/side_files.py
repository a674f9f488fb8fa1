"""CSV files beside a results file, which say more of the same comparison: some rows for each backend."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from bench.errors import UserError
from bench.results.atomic import write_atomically
from bench.results.records import Record

DESCRIBED = ("started_at", "git_commit", "config_hash", "environment_hash", "backend", "stack")
"""The first columns of each: what was measured, by which code, and when."""


SIGNIFICANT_DIGITS = 6
"""Of a figure: a clock's microseconds in steps of up to a second."""


def describe(record: Record) -> dict[str, Any]:
    """The cells of `DESCRIBED`, as of now."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {name: getattr(record, name) for name in DESCRIBED} | {"started_at": now}


def path_beside(results: Path, kind: str) -> Path:
    """The file of a kind that belongs to a results file; its name has a dot more, by which it is known."""
    return results.with_name(f"{results.stem}.{kind}.csv")


def is_of(table: pd.DataFrame, records: Mapping[str, Record], names: Iterable[str]) -> bool:
    """Whether a file holds all of these backends, as they are in the comparison that has these records."""
    return all(
        set(table.loc[table["backend"] == name, column]) == {getattr(records[name], column)}
        for name in names
        for column in ("config_hash", "environment_hash")
    )


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """One kind of them: `<comparison>.<kind>.csv`.

    Attributes:
        kind: of what they say.
        what: they hold, for messages.
        texts: columns of text, after those of `DESCRIBED`.
        numbers: columns of numbers.
        whole: those of them that are whole numbers, written with all digits.
        blanks: whether a number may be missing, where a figure could not be had.
    """

    kind: str
    what: str
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    whole: tuple[str, ...] = ()
    blanks: bool = False

    @property
    def columns(self) -> list[str]:
        """All of them, in order."""
        return [*DESCRIBED, *self.texts, *self.numbers]

    def path_of(self, results: Path) -> Path:
        """The file that belongs to a results file."""
        return path_beside(results, self.kind)

    def write(self, path: Path, rows: Iterable[Mapping[Any, Any]]) -> None:
        """Replace the file by these rows."""
        write(path, rows, self.columns, types=self._whole_types)

    def read(self, path: Path) -> pd.DataFrame:
        """Read such a file.

        Raises:
            UserError: it is damaged.
        """
        table = read(path, self.columns, self.numbers, what=self.what, blanks=self.blanks)
        return table.astype(self._whole_types)

    @property
    def _whole_types(self) -> dict[str, str]:
        return dict.fromkeys(self.whole, "Int64" if self.blanks else "int64")


def write(
    path: Path,
    rows: Iterable[Mapping[Any, Any]],
    columns: Sequence[str],
    *,
    types: Mapping[str, str] | None = None,
) -> None:
    """Replace a file by these rows; what `DESCRIBED` says of one is left out where the row above says it."""
    table = pd.DataFrame(list(rows), columns=list(columns)).astype(dict(types or {}))
    described = table[list(DESCRIBED)].astype(object)
    repeated = (described == described.shift()).all(axis=1)
    table[list(DESCRIBED)] = described.mask(repeated, "")
    text = table.to_csv(index=False, lineterminator="\n", float_format=f"%.{SIGNIFICANT_DIGITS}g")
    write_atomically(path, text)


def read(
    path: Path, columns: Sequence[str], numbers: Sequence[str], *, what: str, blanks: bool = False
) -> pd.DataFrame:
    """Read one.

    Args:
        path: of the file.
        columns: all of them, in order.
        numbers: those that hold numbers; the others hold text.
        what: it is, for the message.
        blanks: whether a number may be missing.

    Raises:
        UserError: it is damaged.
    """
    try:
        text = dict.fromkeys(set(columns) - set(numbers), object)
        missing = {name: [""] for name in numbers} if blanks else None
        table = pd.read_csv(path, dtype=text, keep_default_na=False, na_values=missing)
        if list(table.columns) != list(columns) or table.empty:
            raise ValueError("its columns are others, or it is empty")
        table = table.astype(dict.fromkeys(numbers, float))
        if set(DESCRIBED) <= set(columns):
            said = table["started_at"] != ""
            if not said.iloc[0]:
                raise ValueError("its first row does not say what it is of")
            table[list(DESCRIBED)] = table.loc[said, list(DESCRIBED)].iloc[said.cumsum() - 1].to_numpy()
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as {what} ({error})",
            "restore it with `git checkout`, or measure the comparison again",
        ) from None
    return table


EXPORTS = SideFile(
    kind="export",
    what="what became of exported models",
    texts=(
        "status",  # ok, diverged, or what became of the export
        "message",
        "exporter",
        "runtime",
    ),
    numbers=(
        "export_s",
        "exported_mib",
        "output_scale",  # the largest absolute output of the model in PyTorch
        "difference",  # the largest absolute one between ONNX Runtime's output and that
        "difference_from_reference",  # likewise, from the reference's exported model
        "inferences",
        "inference_ms",  # of one micro-batch: median
        "inference_low_ms",  # of the median's 95 % interval
        "inference_high_ms",
    ),
    blanks=True,
)
"""What becomes of trained models that are exported: a row per backend."""

CHECKPOINTS = SideFile(
    kind="checkpoint",
    what="what became of checkpoints",
    texts=("status", "message"),
    numbers=(
        "steps",  # that were taken before the save
        "save_s",
        "load_s",
        "checkpoint_mib",  # on disk, all ranks
        "difference",  # the largest relative one of losses and gradient norms, from those without loading
    ),
    blanks=True,
)
"""What becomes of saved training states: a row per backend."""

HELD_OUT_LOSSES = SideFile(
    kind="converge",
    what="held-out losses",
    texts=(),
    numbers=(
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
    ),
    whole=("launch", "seed", "evaluation", "steps", "disturbed"),
)
"""Held-out losses on the way to a target: a row per backend, launch and evaluation."""

STEP_PARTS = SideFile(
    kind="parts",
    what="parts of steps",
    texts=(
        "status",  # ok, or why the rest is missing
        "message",
        "item",  # memory, part, gradients, or collective: its name is in the next column
        "name",
    ),
    numbers=(
        "launch",
        "ranks",
        "calls",  # of a collective in one step; 0: it was only timed
        "whole_bytes",  # of its tensor, as in bench.results.collectives; of memory: on the highest rank
        "element_bytes",
        "elements",  # of the gradients that are there
        "share",  # of the backward pass that is over by then
        "seconds",  # of a part or of one call: median over repetitions, slowest rank
        "low_s",  # of that median's 95 % interval
        "high_s",
        "cpu_s",  # likewise, of the processor; mean over ranks
    ),
    whole=("launch", "ranks", "calls", "whole_bytes", "element_bytes", "elements"),
    blanks=True,
)
"""The parts of a step without communication, and its collectives: a row for each of them, and each launch."""
