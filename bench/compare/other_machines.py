"""A result without an earlier version, beside what other machines found with the same comparison."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.machines import SameComparison, backends_of, compare_machines, settings_of
from bench.compare.sources import ResultsFile
from bench.errors import UserError
from bench.machine.environment import find_differences
from bench.report.words.formatting import one_line
from bench.results.environment_cell import latest_environment

OF_THE_MACHINE = ("cpu.", "gpus.", "memory_gib")
"""Entries of an environment in which machines differ by what they are: the table has their names."""

MOST_DIFFERENCES = 4  # settings or versions that are named; of the others only the number is


@dataclass(frozen=True, kw_only=True)
class OtherMachines:
    """What became of the search for a new result's like."""

    # the new result and those of other machines, the new one first; None if there is none
    same: SameComparison | None = None
    differences: list[str] = field(default_factory=list)  # what else differs, a line for each other machine
    reason: str = ""  # why there is none


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
    settings = settings_of(new)
    if not settings:
        return OtherMachines(reason=f"{new.reference}, its reference, was not timed, so it has no speed-up")
    others = {other: results for other, results in known.items() if _machine_of(other) != _machine_of(place)}
    shared = {
        other: number
        for other, results in others.items()
        if settings_of(results) == settings and (number := _count_shared(new, results))
    }
    best: dict[str, ComparisonResults] = {}  # of each machine that with most of the same backends
    for other in sorted(shared, key=lambda other: (-shared[other], len(others[other].stem), other)):
        best.setdefault(names.get(_machine_of(other), _machine_of(other)), others[other])
    here = f"here: {names.get(_machine_of(place), _machine_of(place)) or 'this machine'}"
    same = compare_machines({here: new, **best})
    backends = [backend for backend in same.backends if here in backend.speedups]
    if not backends:
        return OtherMachines(reason="no other machine has made this comparison")
    differences = {machine: _differences(results, new) for machine, results in best.items()}
    return OtherMachines(
        same=replace(same, backends=backends),
        differences=[f"{machine}: {words}" for machine, words in differences.items() if words],
    )


def _machine_of(place: str) -> str:
    """The folder of the machine in a file's place; empty for a file outside of such."""
    return place.split("/")[0] if "/" in place else ""


def _count_shared(new: ComparisonResults, other: ComparisonResults) -> int:
    """Return how many backends have speed-ups in both."""
    theirs = backends_of(other)
    return sum(theirs.get(name) == choices for name, choices in backends_of(new).items())


def _differences(other: ComparisonResults, new: ComparisonResults) -> str:
    """In what else two environments differ, in a line."""
    found = find_differences(latest_environment(other.rows), latest_environment(new.rows), other_is="here")
    lines = [one_line(line) for line in found if not line.startswith(OF_THE_MACHINE)]
    more = [f"{len(lines) - MOST_DIFFERENCES} more"] if len(lines) > MOST_DIFFERENCES else []
    return "; ".join([*lines[:MOST_DIFFERENCES], *more])
