"""CSV files beside a results file, which say more of the same comparison: some rows for each backend."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from bench.errors import UserError
from bench.results.records import Record

DESCRIBED = ("started_at", "git_commit", "config_hash", "environment_hash", "backend", "stack")
"""The first columns of each: what was measured, by which code, and when."""


class SideFile(Protocol):
    """A module that knows one kind of them."""

    def path_of(self, results: Path) -> Path:
        """The one that belongs to a results file."""

    def read(self, path: Path) -> pd.DataFrame:
        """Read one; a damaged one is a `UserError`."""


def describe(record: Record) -> dict[str, Any]:
    """The cells of `DESCRIBED`, as of now."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {name: getattr(record, name) for name in DESCRIBED} | {"started_at": now}


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
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as {what} ({error})",
            "restore it with `git checkout`, or measure the comparison again",
        ) from None
    return table
