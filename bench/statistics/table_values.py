"""What the table of a comparison says as a whole: the value of a column, and how batches were chosen."""

import json

import pandas as pd
from pandas.api.types import is_integer_dtype

from bench.results.column_arrays import ColumnArrays


def distinct_text(rows: pd.DataFrame, column: str) -> str:
    """The column's value; all of them, in order, if there are several; empty if there is none."""
    values = ColumnArrays(rows).distinct(column)
    if is_integer_dtype(rows[column]):
        values = [int(value) for value in values]
    return "/".join(str(value) for value in values if str(value))


def at_largest_batch(rows: pd.DataFrame) -> bool:
    """Whether each backend was measured at its own largest micro-batch."""
    return "max" in set(rows["batch_rule"])


def latest_overrides(rows: pd.DataFrame) -> list[str]:
    """The overrides of Hydra that make the comparison again, as its latest row has them."""
    return [str(override) for override in json.loads(rows["overrides"].iloc[-1])]
