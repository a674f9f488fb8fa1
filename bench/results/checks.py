"""Refuses results files that are damaged, foreign, or would make a wrong figure without anybody noticing."""

import json

import numpy as np
import pandas as pd

from bench.errors import STATUSES, UserError
from bench.results import arithmetic
from bench.results.column_arrays import ColumnArrays
from bench.results.columns import COLUMNS
from bench.results.records import SCHEMA_VERSION
from bench.results.validity import REMEDIES


def check_rows(table: pd.DataFrame, name: str) -> None:
    """Refuse rows that contradict themselves or each other.

    Raises:
        UserError: naming the file and what is wrong.
    """
    if table.empty:
        raise damaged(name, "it has no rows")
    cells = ColumnArrays(table)
    if not set(cells["status"]) <= set(STATUSES):
        raise damaged(name, "it holds a status that does not exist")
    if len(set(zip(cells["comparison"], cells["reference"], strict=True))) > 1:
        raise damaged(name, "it mixes comparisons")
    if not all(map(_is_list, set(cells["overrides"]))):
        raise damaged(name, "overrides is no list in JSON")
    is_block = ~np.isnan(cells["round"])
    if (~is_block & (cells["status"] == "ok")).any():
        raise damaged(name, "a row without a round is ok")
    blocks = cells.where(is_block)
    if not set(blocks.where(blocks["status"] == "invalid")["invalid_because"]) <= set(REMEDIES):
        raise damaged(name, "an invalid block lacks its cause")
    needed = np.array([blocks[column] for column in ("launch", "steps", "seconds", "samples_per_s")])
    if not (needed > 0).all():  # NaN is not, either
        raise damaged(name, "a measured row lacks its figures")
    if _has_duplicates(blocks, ("backend", "launch", "round", "attempt")):
        raise damaged(name, "an attempt of a backend in a round is there twice")
    if _has_duplicates(blocks.where(blocks["status"] == "ok"), ("backend", "launch", "round")):
        raise damaged(name, "a backend has two valid blocks in one round")
    derived = arithmetic.samples_per_s(blocks["steps"], blocks["global_batch"], blocks["seconds"])
    if not (np.abs(blocks["samples_per_s"] - derived) <= 1e-9 * derived).all():
        raise damaged(name, "samples_per_s is not steps x global_batch / seconds")
    work = blocks["model_flops_per_step"] * blocks["steps"] / blocks["seconds"]
    share = blocks["model_flops_per_s"] / blocks["limit_flops_per_s"]
    for column, derived in (("model_flops_per_s", work), ("roofline_share", share)):
        if not np.allclose(blocks[column], derived, rtol=1e-9, atol=0, equal_nan=True):
            raise damaged(name, f"{column} is not what it is derived from")
    if (blocks["roofline_share"] > 1).any():
        raise damaged(name, "roofline_share is above 1: nothing can exceed its limit")


def _is_list(cell: str) -> bool:
    try:
        return isinstance(json.loads(cell), list)
    except ValueError:
        return False


def _has_duplicates(cells: ColumnArrays, columns: tuple[str, ...]) -> bool:
    keys = list(zip(*(cells[column].tolist() for column in columns), strict=True))
    return len(set(keys)) < len(keys)


def damaged(name: str, reason: str) -> UserError:
    """The refusal of the file `name`, which cannot be trusted for this reason."""
    return UserError(f"{name} is damaged: {reason}", "restore it with `git checkout`, or measure it again")


def check_header(table: pd.DataFrame, name: str) -> None:
    """Refuse rows of another version, which also has other columns, and columns other than ours."""
    versions = set(table["schema_version"]) if "schema_version" in table else set()
    if foreign := sorted(versions - {str(SCHEMA_VERSION)}):
        raise UserError(
            f"{name} has schema version {', '.join(foreign)}, this harness reads {SCHEMA_VERSION}",
            "measure it again, or check out the harness that wrote it",
        )
    if tuple(table.columns) != COLUMNS:
        strange = sorted(set(table.columns) ^ set(COLUMNS)) or ["their order"]
        raise UserError(
            f"{name} is not a results file of this harness (its columns differ: {', '.join(strange[:5])})",
            "give a file that `make bench` wrote",
        )
