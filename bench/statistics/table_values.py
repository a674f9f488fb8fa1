"""What the table of a comparison says: values of columns, how it was measured, throughput of its blocks."""

import json

import numpy as np
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


def log_throughput(rows: pd.DataFrame, backend: str) -> pd.Series:
    """Log of samples/s of a backend's valid blocks, indexed by (launch, round)."""
    valid = rows[(rows["backend"] == backend) & (rows["status"] == "ok")]
    index = pd.MultiIndex.from_frame(valid[["launch", "round"]])
    values = np.log(valid["samples_per_s"].to_numpy(float))
    return pd.Series(values, index=index, name="samples_per_s")


def log_ratios(rows: pd.DataFrame, backend: str, reference: str) -> pd.Series:
    """Log ratio of samples/s in each round where both sides are valid, by (launch, round)."""
    return (log_throughput(rows, backend) - log_throughput(rows, reference)).dropna()


def stopped_by_width(*tables: pd.DataFrame) -> bool:
    """Whether `measure.until` chose the number of launches of any of these comparisons."""
    return any(bool(rows["until"].notna().any()) for rows in tables)
