"""Tables as tidy CSV files."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from bench.report.words.formatting import one_line

T = TypeVar("T")


def render_csv(rows: Iterable[T], columns: Mapping[str, Callable[[T], object]]) -> str:
    """A file with a line for each row; columns by their names."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(value(row)) for value in columns.values()] for row in rows)
    return file.getvalue()


def _text(value: object) -> str:
    """A cell: floats with the digits that do not depend on the CPU; blank if it is nothing or not finite."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.12g}" if abs(value) < float("inf") else ""
    return one_line(str(value))
