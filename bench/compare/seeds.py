"""Pairs of files that differ in their seed alone, compared as one pair."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.seeds import combine_seeds, group_by_seed
from bench.compare.differences import refuse_unequal
from bench.compare.sources import ResultsFile
from bench.errors import UserError

Pair = tuple[str, ResultsFile, ResultsFile]


def join_comparisons(comparisons: Mapping[str, ComparisonResults]) -> dict[str, ComparisonResults]:
    """Comparisons by place; those that differ in their seed alone as one."""
    places = {id(results): place for place, results in comparisons.items()}
    joined = {}
    for group in group_by_seed(list(comparisons.values())):
        name = _name_seeds([places[id(comparison)] for comparison in group])
        rows = combine_seeds([comparison.rows for comparison in group]) if len(group) > 1 else group[0].rows
        joined[name] = replace(group[0], rows=rows)
    return joined


def _name_seeds(names: Sequence[str]) -> str:
    first, *others = names
    return f"{first} and {len(others)} more of its seeds" if others else first


def join_seeds(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs, those of several seeds as one where both sides have the same seeds.

    A pair that cannot be read, or whose seeds cannot be compared together, stays as it is, and is refused by
    itself where it must be.
    """
    by_title = {title: (title, old, now) for title, old, now in pairs}
    sides: list[dict[str, ComparisonResults]] = [{}, {}]
    joined = dict(by_title)
    for title, *files in pairs:
        try:
            tables = [file.read() for file in files]
        except UserError:
            continue
        for side, rows in zip(sides, tables, strict=True):
            side[title] = ComparisonResults(stem=title, rows=rows)
    groups = [
        [[comparison.stem for comparison in group] for group in group_by_seed(list(side.values()))]
        for side in sides
    ]
    for titles in groups[1]:
        if len(titles) < 2 or titles not in groups[0]:
            continue
        old, now = (combine_seeds([side[title].rows for title in titles]) for side in sides)
        try:
            refuse_unequal(old, now)
        except UserError:
            continue
        first, *others = titles
        old_file, now_file = by_title[first][1:]
        joined[first] = (_name_seeds(titles), replace(old_file, rows=old), replace(now_file, rows=now))
        for title in others:
            del joined[title]
    return list(joined.values())
