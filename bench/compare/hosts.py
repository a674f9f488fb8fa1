"""Finds a comparison on another host of a machine's kind, and how far hosts of a kind differ."""

from collections.abc import Callable, Iterable, Mapping

import pandas as pd

from bench.analysis.comparison_results import ComparisonResults
from bench.compare import kinds
from bench.compare.sources import ResultsFile, Source
from bench.errors import UserError
from bench.statistics.table_values import distinct_text


def read_results(
    files: Mapping[str, ResultsFile], refuse: Callable[[UserError], None]
) -> dict[str, ComparisonResults]:
    """The undamaged comparisons, by place; `refuse` is called for each damaged one."""
    comparisons = {}
    for place, file in files.items():
        try:
            comparisons[place] = ComparisonResults(stem=place.rpartition("/")[2], rows=file.read())
        except UserError as error:
            refuse(error)
    return comparisons


def read_same_model(base: Source, new: Iterable[pd.DataFrame]) -> dict[str, ComparisonResults]:
    """The comparisons of BASE, by place, that have a model of the new ones; reading all takes a second."""
    models = [distinct_text(rows, "model").replace('"', '""').encode() for rows in new]
    files = {
        name: file for name, file in base.files.items() if any(model in file.content for model in models)
    }
    return read_results(files, lambda _: None)  # `make report` names damaged ones


def find_on_another_host(
    place: str, new: ComparisonResults, known: Mapping[str, ComparisonResults]
) -> str | None:
    """The place of the same comparison on another host of the kind, by its columns, never by the file's name.

    Of several, the one with most of the same backends. None if none has any of them.
    """
    settings, backends = kinds.settings_of(new), kinds.backends_of(new)
    shared = {}
    for other, results in known.items():
        is_like = results.machine_key == new.machine_key and kinds.settings_of(results) == settings
        if settings and is_like and _machine_of(other) != _machine_of(place):
            theirs = kinds.backends_of(results)
            shared[other] = sum(theirs.get(name) == choices for name, choices in backends.items())
    most_first = sorted(shared, key=lambda other: (-shared[other], len(known[other].stem), other))
    return next((other for other in most_first if shared[other]), None)


def estimate_host_spread(known: Mapping[str, ComparisonResults]) -> kinds.HostSpread:
    """How much hosts of one kind differ, by comparisons that several of them have made."""
    by_machine: dict[str, list[ComparisonResults]] = {}
    for place, results in known.items():
        by_machine.setdefault(_machine_of(place), []).append(results)
    return kinds.spread_between_hosts(kinds.group_by_comparison(by_machine))


def _machine_of(place: str) -> str:
    """The folder of the machine in a file's place; empty for a file outside a machine's folder."""
    return place.split("/")[0] if "/" in place else ""
