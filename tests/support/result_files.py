"""Results files made of records, without a comparison."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from bench.results import csv_files
from bench.results.records import Record
from bench.results.rows import rows_of_record


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace the file by the rows of these records."""
    csv_files.write_rows(path, [row for record in records for row in rows_of_record(record)])


def table_of_records(records: Iterable[Record]) -> pd.DataFrame:
    """What `csv_files.read` would return for these records, without a file."""
    return csv_files.table_of_rows(row for record in records for row in rows_of_record(record))
