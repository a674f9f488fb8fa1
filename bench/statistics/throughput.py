"""The throughput of a comparison's valid blocks: logarithms, indexed by launch and round."""

import numpy as np
import pandas as pd


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
