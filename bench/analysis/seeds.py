"""Comparisons that differ in their seed alone, put together: each seed counts as one launch.

Launches of one seed train the same weights on the same batches, so that they say nothing of other seeds. The
seeds are the independent sample; an interval over them holds what differs between seeds.
"""

import json
import re
from collections.abc import Sequence
from typing import TypeVar

import pandas as pd

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.machines import settings_of
from bench.statistics.table_values import distinct_text, latest_overrides

Results = TypeVar("Results", bound=ComparisonResults)


def group_by_seed(comparisons: Sequence[Results]) -> list[list[Results]]:
    """Put together what differs in its seed alone, by seed; every other comparison is alone in its group."""
    groups: dict[object, dict[str, Results]] = {}
    for results in comparisons:
        seed = distinct_text(results.rows, "seed")
        key = _all_but_seed(results) if seed.isdigit() else None
        if key is None or seed in groups.get(key, {}):
            key = id(results)
        groups.setdefault(key, {})[seed] = results
    return [
        [group[seed] for seed in sorted(group, key=lambda seed: (len(seed), seed))]
        for group in groups.values()
    ]


def _all_but_seed(results: ComparisonResults) -> object:
    """Everything that seeds of one comparison have in common; None if its numbers depend on more.

    At its own largest batch a backend does other work with each seed, and an untimed one has no ratios.
    """
    settings = settings_of(results)
    if not settings or results.at_largest:
        return None
    del settings["padding_share"]  # the seed draws the lengths
    columns = ("study", "git_commit", "environment_hash", "margin", "until")
    return (
        *settings.items(),
        *(distinct_text(results.rows, column) for column in columns),
        *_without_seed(latest_overrides(results.rows)),
        *dict.fromkeys(results.rows["backend"]),
    )


def combine_seeds(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put the rows of several seeds into one table; its launches are the seeds, with all rounds of each."""
    seeds = ",".join(distinct_text(rows, "seed") for rows in tables)
    parts = []
    for number, rows in enumerate(tables, start=1):
        before = (rows["launch"] - 1) * rows["round"].max()
        said = f"with seed {distinct_text(rows, 'seed')} " + rows["message"]
        changed = rows.assign(
            launch=number, round=rows["round"] + before, message=said.where(rows["message"] != "", "")
        )
        parts.append(changed.astype(rows.dtypes.to_dict()))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(
        overrides=json.dumps(_without_seed(latest_overrides(table)), ensure_ascii=False),
        command=_sweep(distinct_text(tables[-1], "command"), seeds),
    )


def _without_seed(overrides: Sequence[str]) -> list[str]:
    return [override for override in overrides if not re.match(r"[+]*seed=", override)]


def _sweep(command: str, seeds: str) -> str:
    """Return the command that measures all seeds again; empty if the last one's does not name its seed."""
    swept, found = re.subn(r"\bseed=\d+", f"seed={seeds}", command)
    if not found:
        return ""
    return swept.replace("make bench", "make sweep", 1).replace("-m bench ", "-m bench --multirun ", 1)
