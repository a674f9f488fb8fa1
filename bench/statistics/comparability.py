"""Whether two backends may be compared: what must be equal, what may differ, what forbids a speed-up."""

from collections.abc import Iterable
from typing import Any

from bench.machine.environment import OF_A_STACK, find_differences
from bench.results.column_arrays import ColumnArrays
from bench.results.columns import Rule, columns_with
from bench.results.environment_cell import parse_environment

MUST_EQUAL = columns_with(Rule.EQUAL)
"""The environment must be equal, too, except for what another stack brings; differences are named."""

OF_OWN_BATCH = columns_with(Rule.OWN_BATCH)
CHOICES = columns_with(Rule.CHOICE)
MAY_DIFFER = columns_with(Rule.SAID)

MOST_DIFFERENCES = 4  # entries of the environment that are named where a speed-up is refused because of them


def find_inequalities(ours: ColumnArrays, theirs: ColumnArrays) -> list[str]:
    """Why the valid blocks of a backend and of the reference give no speed-up; empty if they do.

    A backend at its own largest micro-batch may have another global batch than the reference.
    """
    own_batch = ours.distinct("batch_rule") == ["max"]
    unequal = []
    for column in MUST_EQUAL:
        # Blank beside a number is a difference, too.
        values, base = ours.distinct(column) or ["blank"], theirs.distinct(column) or ["blank"]
        if len({*values, *base}) > 1 and not (own_batch and column == "global_batch"):
            unequal.append(f"{column} {join_values(values)} (reference {join_values(base)})")
    for column in MAY_DIFFER:
        several = [values for blocks in (ours, theirs) if len(values := blocks.distinct(column)) > 1]
        unequal += [f"{column} {join_values(values)} of one backend" for values in several]
    return [*unequal, *_compare_environments(theirs, ours)]


def choices_of(blocks: ColumnArrays) -> dict[str, str]:
    """A backend's choices: the text of each of `CHOICES`, empty where a file does not have it."""
    return {column: join_values(blocks.distinct(column)[:1]) for column in CHOICES}


def describe_permitted_differences(ours: ColumnArrays, theirs: ColumnArrays) -> list[str]:
    """In which columns of `MAY_DIFFER` a backend differs from the reference."""
    pairs = ((column, ours.distinct(column), theirs.distinct(column)) for column in MAY_DIFFER)
    return [
        f"{column} {join_values(values)} (reference {join_values(base)})"
        for column, values, base in pairs
        if values != base
    ]


def _compare_environments(theirs: ColumnArrays, ours: ColumnArrays) -> list[str]:
    """The first few differences between the environments of these blocks, if they have several.

    Between blocks of two stacks, what another stack brings does not count.
    """
    texts: dict[str, str] = {}
    for blocks in (theirs, ours):
        for key, text in zip(blocks["environment_hash"], blocks["environment"], strict=True):
            texts.setdefault(key, text)
    if len(texts) == 1:
        return []
    first, *others = map(parse_environment, texts.values())
    lines = dict.fromkeys(line for other in others for line in find_differences(first, other))
    if ours["stack"][0] != theirs["stack"][0] and lines:
        lines = {line: None for line in lines if not line.startswith(OF_A_STACK)}
        if not lines:
            return []
    named = list(lines)[:MOST_DIFFERENCES] or ["environment_hash"]
    more = f", and {len(lines) - len(named)} more" if len(lines) > len(named) else ""
    return [f"measured in different environments: {', '.join(named)}{more}"]


def join_values(values: Iterable[Any]) -> str:
    """A column's values as one text; `ColumnArrays` has whole numbers as floats."""
    return "/".join(f"{value:.12g}" if isinstance(value, float) else str(value) for value in values)
