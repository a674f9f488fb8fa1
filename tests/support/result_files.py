"""Results files made of records, without a comparison."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bench.results import csv_files
from bench.results.records import Record
from bench.results.rows import rows_of_record


def write_rows(path: Path, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Replace the file by these rows, which may also come from `csv_files.read(path).to_dict("records")`."""
    csv_files.write_formatted(path, [csv_files.format_rows(rows)])


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace the file by the rows of these records."""
    write_rows(path, [row for record in records for row in rows_of_record(record)])


def table_of_records(records: Iterable[Record]) -> pd.DataFrame:
    """What `csv_files.read` would return for these records, without a file."""
    rows = (row for record in records for row in rows_of_record(record))
    return csv_files.table_of_lines([csv_files.format_rows(rows)])
