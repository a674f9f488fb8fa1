"""A result without an earlier version, beside what other machines found with the same comparison."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from bench.analysis import machines
from bench.analysis.comparison_results import ComparisonResults
from bench.compare.sources import ResultsFile, Source
from bench.errors import UserError
from bench.statistics.table_values import distinct_text


@dataclass(frozen=True, kw_only=True)
class OtherMachines:
    """What became of the search for a new result's like."""

    # the new result and those of other machines, the new one first; None if there is none
    same: machines.SameComparison | None = None
    reason: str = ""  # why there is none
    of_its_kind: str = ""  # the place of the result of another host of the same kind; empty if there is none


def read_results(
    files: Mapping[str, ResultsFile], refuse: Callable[[UserError], None]
) -> dict[str, ComparisonResults]:
    """The comparisons by place; without those that are damaged, for each of which `refuse` is called."""
    comparisons = {}
    for place, file in files.items():
        try:
            comparisons[place] = ComparisonResults(stem=place.rpartition("/")[2], rows=file.read())
        except UserError as error:
            refuse(error)
    return comparisons


def look_at_other_machines(
    place: str, new: ComparisonResults, known: Mapping[str, ComparisonResults], names: Mapping[str, str]
) -> OtherMachines:
    """Find the same comparison on other machines: by its columns, never by the file's name.

    Args:
        place: of the new result, which begins with its machine's folder.
        new: what was measured.
        known: committed comparisons of all machines, by place.
        names: of machines, by folder.
    """
    settings = machines.settings_of(new)
    if not settings:
        return OtherMachines(reason=f"{new.reference}, its reference, was not timed, so it has no speed-up")
    others = {other: results for other, results in known.items() if _machine_of(other) != _machine_of(place)}
    shared = {
        other: number
        for other, results in others.items()
        if machines.settings_of(results) == settings and (number := _count_shared(new, results))
    }
    best: dict[str, ComparisonResults] = {}  # of each machine that with most of the same backends
    ordered = sorted(shared, key=lambda other: (-shared[other], len(others[other].stem), other))
    for other in ordered:
        best.setdefault(names.get(_machine_of(other), _machine_of(other)), others[other])
    here = f"here: {names.get(_machine_of(place), _machine_of(place)) or 'this machine'}"
    same = machines.compare_machines({here: new, **best}, hosts=estimate_host_spread(known))
    backends = [backend for backend in same.backends if here in backend.speedups]
    if not backends:
        return OtherMachines(reason="no other machine has made this comparison")
    return OtherMachines(
        same=replace(same, backends=backends),
        of_its_kind=next((other for other in ordered if others[other].machine_key == new.machine_key), ""),
    )


def read_same_model(base: Source, new: Iterable[pd.DataFrame]) -> dict[str, ComparisonResults]:
    """The comparisons of BASE, by place, that have a model of the new ones; reading all takes a second."""
    models = [distinct_text(rows, "model").replace('"', '""').encode() for rows in new]
    files = {
        name: file for name, file in base.files.items() if any(model in file.content for model in models)
    }
    return read_results(files, lambda _: None)  # `make report` tells of damaged ones


def estimate_host_spread(known: Mapping[str, ComparisonResults]) -> machines.HostSpread:
    """How much hosts of one kind differ, by comparisons that several of them have made."""
    by_machine: dict[str, list[ComparisonResults]] = {}
    for place, results in known.items():
        by_machine.setdefault(_machine_of(place), []).append(results)
    return machines.spread_between_hosts(machines.group_by_comparison(by_machine))


def _machine_of(place: str) -> str:
    """The folder of the machine in a file's place; empty for a file outside of such."""
    return place.split("/")[0] if "/" in place else ""


def _count_shared(new: ComparisonResults, other: ComparisonResults) -> int:
    """Return how many backends have speed-ups in both."""
    theirs = machines.backends_of(other)
    return sum(theirs.get(name) == choices for name, choices in machines.backends_of(new).items())
