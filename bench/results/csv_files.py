"""Writes rows to a results CSV and reads them back as a DataFrame. One file holds one comparison.

A file that is damaged, foreign, or would silently make a wrong figure is refused.

Long values that repeat are written once, and reading restores them in every row: an environment stands in
the first row that has its hash, a command and the like where they differ from the row above.
"""

import codecs
import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.errors import STATUSES, UserError
from bench.machine.environment import hash_environment
from bench.results import arithmetic
from bench.results.atomic import write_atomically
from bench.results.column_arrays import ColumnArrays
from bench.results.columns import COLUMNS, DTYPES, REAL, REMOVED, TEXT, Rule, columns_with
from bench.results.environment_cell import parse_environment
from bench.results.records import SCHEMA_VERSION
from bench.results.validity import REMEDIES

Line = list[str]  # the cells of a row

REPEATED, ADDED = columns_with(Rule.REPEATED), columns_with(Rule.ADDED)

RESTORE = "restore it with `git checkout`, or measure it again"
RESTORE_A_COPY = "restore it with `git checkout`, and open only a copy in a spreadsheet, which rounds numbers"
SPLIT = "give joined files as two, or restore it with `git checkout`; resume=true adds launches to a file"

EDITED = {
    "\ufeff": ("a spreadsheet has saved it with a byte order mark", RESTORE_A_COPY),
    r'"?schema_version"?[;\t|]': ("a spreadsheet has saved it without commas", RESTORE_A_COPY),
    r"(schema_version,[^\n]*\n)(?s:.*\n)?\1": ("it is two files joined, with two headers", SPLIT),
    r"(?s:.*\n)?<<<<<<< ": (
        "git has left a conflict in it",
        "keep a side by `git checkout --ours` or `--theirs`",
    ),
}
"""Beginnings of files that another program has edited, with the fault and the remedy."""

DIGITS = 12  # significant digits of a figure: far more than a clock has


def write_formatted(path: Path, parts: Iterable[Sequence[Line]]) -> None:
    """Replace the file by rows that `format_rows` has formatted, atomically."""
    write_atomically(path, _join(parts))


def table_of_lines(parts: Iterable[Sequence[Line]]) -> pd.DataFrame:
    """What `read` would return for a file of rows formatted by `format_rows`."""
    return _convert_columns(_parse_cells(_join(parts), ""), "")


def format_rows(rows: Iterable[Mapping[Any, Any]]) -> list[Line]:
    """Rows as text, without the header."""
    return [[_quote(_format_cell(row[column])) for column in COLUMNS] for row in rows]


def _join(parts: Iterable[Sequence[Line]]) -> str:
    repeated, environment = [COLUMNS.index(name) for name in REPEATED], COLUMNS.index("environment")
    above, written, lines = dict.fromkeys(repeated, ""), {""}, [",".join(COLUMNS)]
    for cells in (line for part in parts for line in part):
        line = cells.copy()
        for place in repeated:
            line[place] = "" if cells[place] == above[place] else cells[place]
            above[place] = cells[place]
        line[environment] = "" if cells[environment] in written else cells[environment]
        written.add(cells[environment])
        lines.append(",".join(line))
    return "\n".join([*lines, ""])


def _format_cell(value: Any) -> str:
    """One value as text; what is missing or not finite is blank."""
    if isinstance(value, str):
        # a log may hold lone surrogates, which are no UTF-8, and NUL, which Python 3.10 cannot read
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    if value is None or value is pd.NA or not math.isfinite(value):
        return ""
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(int(value))


def _quote(cell: str) -> str:
    """RFC 4180 quoting, by hand: csv.writer of Python 3.11, pandas' too, leaves a carriage return bare."""
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',"\r\n') else cell


def read(path: Path) -> pd.DataFrame:
    """Read a results file; the columns are `COLUMNS`, typed as in `DTYPES`, text untouched.

    UserError if the file is missing, damaged, not a results file or of another schema.
    """
    return parse(read_content(path), str(path))


def read_content(path: Path) -> bytes:
    """The bytes of a results file, which `parse` takes; UserError if it is missing, or may not be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UserError(
            f"{path} cannot be read ({reason})", "check the path, or measure with `make bench`"
        ) from None


def list_files(folder: Path) -> list[Path]:
    """The results files right inside a folder, sorted by name; UserError if there is none."""
    # tables beside a results file have a dot in their names
    if paths := sorted(path for path in folder.glob("*.csv") if "." not in path.stem):
        return paths
    raise UserError(f"{folder} holds no results file", "measure with `make bench` first")


def parse(content: bytes, name: str) -> pd.DataFrame:
    """Read the content of a results file, as `read` does; errors call it `name`."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        if content[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise _damaged(name, "it is not UTF-8 text") from None
        text = "\ufeff"
    for beginning, (reason, remedy) in EDITED.items():
        if re.match(beginning, text):
            raise _damaged(name, reason, remedy)
    table = _convert_columns(_parse_cells(text, name), name)
    _check_rows(table, name)
    return table


def _parse_cells(text: str, name: str) -> pd.DataFrame:
    """Every cell as text, once header and shape are right.

    Python's csv and not pandas: it refuses broken quotes, and takes no text such as `NA` for a blank.
    """
    try:
        header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (csv.Error, ValueError):  # ValueError: not even a header
        raise _damaged(name, "it is empty or breaks off inside a cell") from None
    if len(set(header)) != len(header):
        raise _damaged(name, "a column is there twice")
    if not text.endswith("\n") or any(len(line) != len(header) for line in lines):
        raise _damaged(name, "it breaks off, or a row has too few or too many cells")
    table = pd.DataFrame(lines, columns=header, dtype=object).drop(columns=list(REMOVED), errors="ignore")
    _check_header(table, name)
    hashes, cells = table["environment_hash"], table["environment"]
    environments = {key: cell for key, cell in zip(hashes, cells, strict=True) if cell}
    table["environment"] = [environments.get(key, "") for key in hashes]
    for column in REPEATED:
        table[column] = list(accumulate(table[column], lambda above, cell: cell or above))
    return table


def _convert_columns(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Text cells as the types of `DTYPES`; blank is missing."""
    columns: dict[str, Any] = {}
    blanks = [""] * len(table)  # of a column of `ADDED`
    texts = dict(zip(table.columns, table.to_numpy(object).T.tolist(), strict=True))
    for column, dtype in DTYPES.items():
        cells = texts.get(column, blanks)
        try:
            if dtype == TEXT:  # pandas 3 would give a bare array its new text type
                columns[column] = pd.Series(cells, dtype=object)
            elif dtype == REAL:
                columns[column] = np.array([float(cell) if cell else math.nan for cell in cells])
            else:
                numbers = np.array([int(cell or 0) for cell in cells], dtype=np.int64)
                blank = np.array([not cell for cell in cells], dtype=bool)
                columns[column] = pd.arrays.IntegerArray(numbers, blank)
        except (TypeError, ValueError, OverflowError):
            raise _damaged(name, f"{column} holds something that is not a number") from None
    return pd.DataFrame(columns, copy=False)


def _check_rows(table: pd.DataFrame, name: str) -> None:
    """Refuse rows that contradict themselves or each other."""
    if table.empty:
        raise _damaged(name, "it has no rows")
    cells = ColumnArrays(table)
    if not set(cells["status"]) <= set(STATUSES):
        raise _damaged(name, "it holds a status that does not exist")
    if len(set(zip(cells["comparison"], cells["reference"], strict=True))) > 1:
        raise _damaged(name, "it mixes comparisons", SPLIT)
    for column, kind, words in (("overrides", list, "list"), ("environment", dict, "object")):
        if not all(_holds(kind, cell) for cell in set(cells[column])):
            raise _damaged(name, f"{column} is no {words} in JSON")
    for key, cell in set(zip(cells["environment_hash"], cells["environment"], strict=True)):
        if hash_environment(parse_environment(cell)) != key:
            raise _damaged(name, "an environment is not the one that environment_hash was made of")
    is_block = ~np.isnan(cells["round"])
    if (~is_block & (cells["status"] == "ok")).any():
        raise _damaged(name, "a row without a round is ok")
    blocks = cells.where(is_block)
    if not set(blocks.where(blocks["status"] == "invalid")["invalid_because"]) <= set(REMEDIES):
        raise _damaged(name, "an invalid block lacks its cause")
    figures = ("launch", "attempt", "steps", "seconds", "samples_per_s")
    needed = np.array([blocks[column] for column in figures])
    if not (needed > 0).all():  # NaN is not, either
        raise _damaged(name, "a measured row lacks its figures")
    place = ["backend", "launch", "round"]
    if _any_twice(blocks, [*place, "attempt"]):
        raise _damaged(name, "an attempt of a backend in a round is there twice", SPLIT)
    if _any_twice(blocks.where(blocks["status"] == "ok"), place):
        raise _damaged(name, "a backend has two valid blocks in one round")
    derived = arithmetic.samples_per_s(blocks["steps"], blocks["global_batch"], blocks["seconds"])
    if not (np.abs(blocks["samples_per_s"] - derived) <= 1e-9 * derived).all():
        raise _damaged(name, "samples_per_s is not steps x global_batch / seconds")
    work = blocks["model_flops_per_step"] * blocks["steps"] / blocks["seconds"]
    share = blocks["model_flops_per_s"] / blocks["limit_flops_per_s"]
    for column, derived in (("model_flops_per_s", work), ("roofline_share", share)):
        if not np.allclose(blocks[column], derived, rtol=1e-9, atol=0, equal_nan=True):
            raise _damaged(name, f"{column} is not what it is derived from")
    if (blocks["roofline_share"] > 1).any():
        raise _damaged(name, "roofline_share is above 1: nothing can exceed its limit")


def _any_twice(cells: ColumnArrays, columns: Sequence[str]) -> bool:
    """Whether two rows say the same in all of these columns."""
    return len(set(zip(*(cells[column].tolist() for column in columns), strict=True))) < len(cells)


def _holds(kind: type, cell: str) -> bool:
    """Whether the cell is JSON of this kind."""
    try:
        return isinstance(json.loads(cell), kind)
    except ValueError:
        return False


def _damaged(name: str, reason: str, remedy: str = RESTORE) -> UserError:
    """The refusal of the file `name`, which cannot be trusted for this reason."""
    return UserError(f"{name} is damaged: {reason}", remedy)


def _check_header(table: pd.DataFrame, name: str) -> None:
    """Refuse rows of another version, which also has other columns, and columns other than ours."""
    versions = set(table["schema_version"]) if "schema_version" in table else set()
    if foreign := sorted(versions - {str(SCHEMA_VERSION)}):
        raise UserError(
            f"{name} has schema version {', '.join(foreign)}, this harness reads {SCHEMA_VERSION}",
            "measure it again, or check out the harness that wrote it",
        )
    if tuple(table.columns) != tuple(name for name in COLUMNS if name in table or name not in ADDED):
        strange = sorted((set(table.columns) ^ {*COLUMNS}) - {*ADDED}) or ["their order"]
        raise UserError(
            f"{name} is not a results file of this harness (its columns differ: {', '.join(strange[:5])})",
            "give a file that `make bench` wrote",
        )
