"""Tables beside the results: what each kind of file holds, and how it is written and read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from bench.errors import UserError
from bench.results.atomic import write_atomically
from bench.results.columns import TEXT, WHOLE
from bench.results.records import Record

DESCRIBED = ("started_at", "git_commit", "config_hash", "environment_hash", "backend", "stack")
"""The first columns of each file beside a results file: what was measured, by which code, and when."""


def describe(record: Record) -> dict[str, Any]:
    """Return the cells of `DESCRIBED` for a file that is made now."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {name: getattr(record, name) for name in DESCRIBED} | {"started_at": now}


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """A file that says more of a comparison, some rows for each backend: `<comparison>.<kind>.csv`.

    `DESCRIBED` comes before its columns; in the file it is blank where the row above says the same.
    """

    kind: str
    what: str  # it holds, for messages
    columns: Mapping[str, str]  # in order, each `TEXT`, `REAL`, or `WHOLE`, which is written with all digits
    blanks: bool = False  # whether a number may be missing, where a figure could not be had

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict.fromkeys(DESCRIBED, TEXT) | dict(self.columns))

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers."""
        return [name for name, kind in self.columns.items() if kind != TEXT]

    def path_of(self, results: Path) -> Path:
        """The file that belongs to a results file; its name has a dot more, by which it is known."""
        return results.with_name(f"{results.stem}.{self.kind}.csv")

    def write(self, path: Path, rows: Iterable[Mapping[Any, Any]]) -> None:
        """Replace the file by these rows."""
        table = pd.DataFrame(list(rows), columns=list(self.columns)).astype(self._whole_types())
        described = table[list(DESCRIBED)].astype(object)
        repeated = (described == described.shift()).all(axis=1)
        table[list(DESCRIBED)] = described.mask(repeated, "")
        # Six significant digits are a clock's microseconds in steps of up to a second.
        write_atomically(path, table.to_csv(index=False, lineterminator="\n", float_format="%.6g"))

    def read(self, path: Path) -> pd.DataFrame:
        """Read such a file; UserError if it is damaged."""
        texts = [name for name, kind in self.columns.items() if kind == TEXT]
        missing = {name: [""] for name in self.numbers} if self.blanks else None
        try:
            table = pd.read_csv(
                path, dtype=dict.fromkeys(texts, object), keep_default_na=False, na_values=missing
            )
            if list(table.columns) != list(self.columns) or table.empty:
                raise ValueError("its columns are others, or it is empty")
            table = table.astype(dict.fromkeys(self.numbers, float))
            is_described = table["started_at"] != ""
            if not is_described.iloc[0]:
                raise ValueError("its first row does not say what it is of")
            described = table.loc[is_described, list(DESCRIBED)]
            table[list(DESCRIBED)] = described.iloc[is_described.cumsum() - 1].to_numpy()
        except (OSError, ValueError) as error:
            raise UserError(
                f"{path} cannot be read as {self.what} ({error})",
                "restore it with `git checkout`, or measure the comparison again",
            ) from None
        return table.astype(self._whole_types())

    def lacks(self, results: Path, records: Mapping[str, Record], names: Iterable[str]) -> bool:
        """Whether one of these backends is not there as it is in the comparison that has these records."""
        path = self.path_of(results)
        if not path.exists():
            return True
        table = self.read(path)
        return any(
            set(table.loc[table["backend"] == name, column]) != {getattr(records[name], column)}
            for name in names
            for column in ("config_hash", "environment_hash")
        )

    def _whole_types(self) -> dict[str, str]:
        whole = [name for name, kind in self.columns.items() if kind == WHOLE]
        return dict.fromkeys(whole, "Int64" if self.blanks else "int64")
