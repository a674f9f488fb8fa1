"""Finds the line of a user's file that keeps a dataset from being read; asked only once that has failed."""

import csv
import gzip
import json
import sys
import zlib
from collections.abc import Iterable
from os import SEEK_END
from pathlib import Path
from typing import IO, Any

from bench.errors import UserError

BUILDERS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".txt": "text"}
"""What reads a single file of this ending, `.gz` after it or not; of a folder, `datasets` finds out."""

KINDS = {
    str: "a text",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def builder_of(path: Path) -> str | None:
    """The name of what reads this file; None if nothing does."""
    return BUILDERS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def raise_fault(path: Path) -> None:
    """Raise what is wrong with a file, or with the first such one of a folder, if that is found."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    header: list[str] = []
    for file in files:
        builder = builder_of(file)
        if builder is None:
            continue
        try:
            with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
                lines = _lines(stream, file) if builder != "parquet" else [stream.read(1).hex()]
        except (OSError, EOFError, zlib.error) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise UserError(f"{file} cannot be read ({reason})", "replace it, or allow reading it") from None
        if not any(line.strip() for line in lines):
            raise UserError(f"{file} is empty", "give it rows, or take it away")
        if builder == "csv":
            header = _check_csv(lines, file, header)
        elif builder == "json":
            _check_json(lines, file)
        elif file.suffix == ".parquet" and not _is_parquet(file):
            raise UserError(f"{file} is cut off or no Parquet file", "write it anew")


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as stream:
        stream.seek(max(4, stream.seek(0, SEEK_END) - 4))
        return stream.read() == b"PAR1"


def _lines(stream: "IO[bytes] | gzip.GzipFile", file: Path) -> list[str]:
    lines = []
    for number, line in enumerate(stream, start=1):
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError:
            raise UserError(
                f"{file}, line {number}, is not UTF-8",
                "convert the file, such as by `iconv -f LATIN1 -t UTF-8`",
            ) from None
    return lines


def _check_csv(lines: Iterable[str], file: Path, expected: list[str]) -> list[str]:
    """Return the header, which all files of a folder must share: `expected`, if there was one before."""
    csv.field_size_limit(sys.maxsize)
    rows = csv.reader(lines, strict=True)
    try:
        header = next(rows)
        for row in rows:
            if len(row) > len(header):
                raise UserError(
                    f"{file}, line {rows.line_num}, has {len(row)} fields, and its header {len(header)}",
                    "put a text that holds commas in quotes, or take the line away",
                )
    except csv.Error as error:
        raise UserError(
            f"{file}, line {rows.line_num}, is no CSV ({error})", "close its quotes, or take the line away"
        ) from None
    if expected and sorted(header) != sorted(expected):
        raise UserError(
            f"{file} has the columns {', '.join(header)}, and a file before it {', '.join(expected)}",
            "give all files of the folder the same ones",
        )
    return header


def _check_json(lines: list[str], file: Path) -> None:
    """A document of several lines, or an object in every line whose values are of one kind in each column."""
    whole = "".join(lines).lstrip()
    is_document = whole.startswith("[") or whole.splitlines()[0].strip() == "{"
    numbered = [(1, whole)] if is_document else [*enumerate(lines, start=1)]
    kinds: dict[str, tuple[str, str]] = {}
    for number, line in numbered:
        if not line.strip():
            continue
        try:
            rows: Any = json.loads(line)
        except ValueError as error:
            at = number + getattr(error, "lineno", 1) - 1
            raise UserError(
                f"{file}, line {at}, is no JSON ({getattr(error, 'msg', error)})",
                "correct it, or take it away",
            ) from None
        what = "row" if is_document else "line"
        for row_number, row in enumerate(rows if is_document and isinstance(rows, list) else [rows], start=1):
            place = f"{what} {row_number if is_document else number}"
            if not isinstance(row, dict):
                raise UserError(f"{file}, {place}, holds no object", "give each sample its columns' names")
            for name, value in row.items():
                kind = KINDS.get(type(value))
                before, first = kinds.setdefault(name, (kind, place)) if kind else (kind, place)
                if kind != before:
                    raise UserError(
                        f"{file}, {place}, has {kind} in column {name}, and {first} {before}",
                        f"give every {what} the same",
                    )
