"""Contents of a comparison's table: values of columns, and how it was measured."""

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd
from pandas.api.types import is_integer_dtype

from bench.results.column_arrays import ColumnArrays

OTHER_THAN_PUBLISHED = ("mini", "changed")


def distinct_text(rows: pd.DataFrame, column: str) -> str:
    """The column's value; all of them, in order, if there are several; empty if there is none."""
    values = ColumnArrays(rows).distinct(column)
    if is_integer_dtype(rows[column]):
        values = [int(value) for value in values]
    return "/".join(str(value) for value in values if str(value))


def count_launches(rows: pd.DataFrame) -> int:
    """How many launches have timed blocks."""
    return rows.loc[rows["round"].notna(), "launch"].nunique()


def at_largest_batch(rows: pd.DataFrame) -> bool:
    """Whether each backend was measured at its own largest micro-batch."""
    return "max" in set(rows["batch_rule"])


def left_alone(rows: pd.DataFrame) -> list[str]:
    """Threads and allocator, as far as nothing held them, in words: speed-ups are no results then."""
    free = (rows["cores_per_rank"] > rows["threads_per_rank"]).any()
    return ["cores not pinned"] * bool(free) + ["system allocator"] * ("system" in set(rows["allocator"]))


def model_label(model: str, size: str, layers: Any, published_layers: Any) -> str:
    """A model's name, and what was left out: `bert-large, mini` or `bert-large, 6 of 24 layers`."""
    if size not in OTHER_THAN_PUBLISHED and not size.startswith("layers:"):  # published, or a user's model
        return model
    if size in OTHER_THAN_PUBLISHED or pd.isna(layers) or pd.isna(published_layers):
        return f"{model}, {size}"
    return f"{model}, {int(layers)} of {int(published_layers)} layers"


def latest_overrides(rows: pd.DataFrame) -> list[str]:
    """The overrides of Hydra that make the comparison again, as its latest row has them."""
    return [str(override) for override in json.loads(rows["overrides"].iloc[-1])]


def by_key(overrides: Iterable[str]) -> dict[str, str]:
    """The values of overrides."""
    return {key: value for key, _, value in (override.partition("=") for override in overrides)}


def stopped_by_width(*tables: pd.DataFrame | ColumnArrays) -> bool:
    """Whether intervals may have decided the number of launches of any of these comparisons.

    Either `measure.target_half_width` did, or a user who saw the intervals and added launches.
    """
    return any(not pd.isna(rows["target_half_width"]).all() or launches_were_added(rows) for rows in tables)


def launches_were_added(rows: pd.DataFrame | ColumnArrays) -> bool:
    """Whether a run with another `measure.launches` went on with a comparison."""
    overrides = map(json.loads, set(rows["overrides"]))
    return len({by_key(each).get("measure.launches") for each in overrides}) > 1
