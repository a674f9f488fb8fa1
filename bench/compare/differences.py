"""In what two results files differ: what forbids a comparison, and what is only named beside it."""

import pandas as pd

from bench.analysis.summary import summarise
from bench.errors import UserError
from bench.machine import environment
from bench.report.formatting import one_line
from bench.results.environment_cell import environment_entry, gpu_names, latest_environment
from bench.results.table_values import at_largest_batch, distinct_text

WORKLOAD = (
    *("model", "size", "parameters", "trainable_parameters", "task", "data", "lengths", "padding_share"),
    *("batch_rule", "micro_batch", "grad_accum", "global_batch", "seq_len"),
    *("precision", "attention", "checkpointing", "memory_limit_gib"),
)
"""Columns of the workload: a difference forbids a comparison."""

HARDWARE = ("device", "world_size", "threads_per_rank", "cores_per_rank")
"""Columns of the hardware: a difference forbids a comparison."""


OF_OWN_BATCH = ("micro_batch", "global_batch", "padding_share")
"""The columns of `WORKLOAD` that are a result, where each backend is measured at its largest batch."""


NAMED_COLUMNS = ("git_commit", "stack", "allocator", "seed", "config_hash", "environment_hash")
"""Columns whose difference does not forbid a comparison and is named below it."""


def refuse_unequal(base: pd.DataFrame, new: pd.DataFrame) -> None:
    """Refuse two files whose ratio would mean nothing.

    Raises:
        UserError: they differ in workload or hardware.
    """
    both_largest = at_largest_batch(base) and at_largest_batch(new)
    workload = [name for name in WORKLOAD if not (both_largest and name in OF_OWN_BATCH)]
    if obstacles := [*_unequal(base, new, (*workload, *HARDWARE)), *_unequal_hardware(base, new)]:
        raise UserError(
            f"these files cannot be compared, since {'; '.join(obstacles)} differ between base and "
            "new; measure both with the same workload on the same hardware"
        )


def named_differences(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """What differs without forbidding a comparison, a line for each difference."""
    columns = [
        f"{column}: {distinct_text(base, column)}, now {distinct_text(new, column)}"
        for column in NAMED_COLUMNS
        if set(base[column]) != set(new[column])
    ]
    entries = environment.find_differences(latest_environment(base), latest_environment(new))
    return [one_line(line) for line in _largest_batches(base, new) + columns + entries]


def _largest_batches(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """The backends whose largest micro-batch has changed; none if all had the same batch."""
    if not (at_largest_batch(base) and at_largest_batch(new)):
        return []
    before, after = (
        {one.backend: one.micro_batch for one in summarise(rows) if one.micro_batch} for rows in (base, new)
    )
    return [
        f"largest micro-batch of {name}: {before[name]}, now {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]


def _unequal(base: pd.DataFrame, new: pd.DataFrame, columns: tuple[str, ...]) -> list[str]:
    """`column (base value, new value)` for every column that differs."""
    return [
        f"{column} ({distinct_text(base, column)}, {distinct_text(new, column)})"
        for column in columns
        if set(base[column].dropna()) != set(new[column].dropna())
    ]


def _unequal_hardware(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    old, now = latest_environment(base), latest_environment(new)
    named = {
        "cpu model": [environment_entry(side, "cpu", "model") for side in (old, now)],
        "gpu names": [gpu_names(side) for side in (old, now)],
    }
    return [f"{key} ({sides[0]}, {sides[1]})" for key, sides in named.items() if sides[0] != sides[1]]
