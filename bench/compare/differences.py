"""In what two results files differ: what forbids a comparison, and what is only named beside it."""

from typing import Any

import pandas as pd

from bench.errors import UserError
from bench.machine import environment
from bench.machine.identity import describe_instruction_sets, name_processor
from bench.report.words.formatting import one_line
from bench.results.columns import Rule, columns_with
from bench.results.environment_cell import gpu_names, latest_environment
from bench.statistics.backend_blocks import blocks_of
from bench.statistics.comparability import CHOICES, OF_OWN_BATCH, choices_of
from bench.statistics.summary import summarise
from bench.statistics.table_values import at_largest_batch, distinct_text

NAMED_COLUMNS = columns_with(Rule.FILES_SAID)
FORBIDDING = columns_with(Rule.FILES_EQUAL)


def refuse_unequal(base: pd.DataFrame, new: pd.DataFrame) -> None:
    """Refuse two files whose ratio would mean nothing."""
    both_largest = at_largest_batch(base) and at_largest_batch(new)
    obstacles = [
        f"{column} ({distinct_text(base, column)}, {distinct_text(new, column)})"
        for column in FORBIDDING
        if not (both_largest and column in OF_OWN_BATCH)
        and set(base[column].dropna()) != set(new[column].dropna())
    ]
    kinds = [_describe_kind(latest_environment(rows)) for rows in (base, new)]
    if len(set(kinds)) > 1:
        obstacles.append(f"the kinds of machine ({'; '.join(kinds)})")
    if obstacles:
        raise UserError(
            f"these files cannot be compared, since {'; '.join(obstacles)} differ between base and "
            "new; measure both with the same workload on the same hardware"
        )


def _describe_kind(environment: dict[str, Any]) -> str:
    """What is equal for machines of one kind, in words: GPUs, CPU and instruction sets."""
    words = [name_processor(environment), f"instruction sets {describe_instruction_sets(environment)}"]
    return one_line(", ".join([*gpu_names(environment), *words]))


def changed_choices(base: pd.DataFrame, new: pd.DataFrame, name: str) -> list[str]:
    """How a backend of this name differs from before, so that a ratio would mean nothing."""
    sides = [blocks_of(rows, name).rows for rows in (base, new)]
    if not all(map(len, sides)):
        return []
    old, now = map(choices_of, sides)
    return [
        f"{choice} {old[choice] or 'blank'}, now {now[choice] or 'blank'}"
        for choice in CHOICES
        if old[choice] != now[choice] and choice not in NAMED_COLUMNS
    ]


def are_of_one_host(base: pd.DataFrame, new: pd.DataFrame) -> bool:
    """Whether both files name the same host; older files do not name it."""
    hosts = {latest_environment(rows).get("host") for rows in (base, new)}
    return len(hosts) == 1 and None not in hosts


def named_differences(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """What differs without forbidding the files' comparison, a line for each difference."""
    columns = [
        f"{column}: {distinct_text(base, column)}, now {distinct_text(new, column)}"
        for column in NAMED_COLUMNS
        if set(base[column]) != set(new[column])
    ]
    old, now = latest_environment(base), latest_environment(new)
    choices = [
        f"{name}: {words}"
        for name in dict.fromkeys(base["backend"])
        for words in changed_choices(base, new, name)
    ]
    before, after = map(_describe_extent, (base, new))
    extent = f"measured: {before}; now {after} (other settings, interrupted, or rows were deleted)"
    lines = [*choices, *_largest_batches(base, new), *[extent] * (before != after), *columns]
    return [one_line(line) for line in [*lines, *environment.find_differences(old, now)]]


def _describe_extent(rows: pd.DataFrame) -> str:
    """`4 launches, 32 rounds`, and the backends with fewer rounds."""
    timed = rows[rows["round"].notna()].drop_duplicates(["backend", "launch", "round"])
    rounds = timed["backend"].value_counts()
    fewer = [f"{count} of {name}" for name, count in rounds.items() if count < rounds.max()]
    return ", ".join([f"{timed['launch'].nunique()} launches, {rounds.max()} rounds", *fewer])


def _largest_batches(base: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """The backends whose largest micro-batch has changed; none if all had the same batch."""
    if not (at_largest_batch(base) and at_largest_batch(new)):
        return []
    before, after = (
        {summary.backend: summary.micro_batch for summary in summarise(rows) if summary.micro_batch}
        for rows in (base, new)
    )
    return [
        f"largest micro-batch of {name}: {before[name]}, now {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]
