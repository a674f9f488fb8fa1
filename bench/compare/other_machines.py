"""A result without an earlier version, beside what other machines found with the same comparison."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.machines import SameComparison, backends_of, compare_machines, settings_of
from bench.analysis.table_values import distinct_text
from bench.compare.sources import ResultsFile
from bench.errors import UserError
from bench.machine.environment import find_differences
from bench.report.words.formatting import one_line
from bench.results.environment_cell import latest_environment

OF_THE_MACHINE = ("cpu.", "gpus.", "memory_gib")
"""Entries of an environment in which machines differ by what they are: the table has their names."""

MOST_DIFFERENCES = 4
"""Settings or versions that are named; of the others only the number is."""


@dataclass(frozen=True, kw_only=True)
class OtherMachines:
    """What became of the search for a new result's like."""

    # the new result and those of other machines, the new one first; None if there is none
    same: SameComparison | None = None
    differences: list[str] = field(default_factory=list)  # what else differs, a line for each other machine
    reason: str = ""  # why there is none, and what is nearest


def read_results(files: Mapping[str, ResultsFile]) -> dict[str, ComparisonResults]:
    """The comparisons by place; without those that are damaged, of which `make report` tells."""
    found = {}
    for place, file in files.items():
        try:
            found[place] = ComparisonResults(stem=place.rpartition("/")[2], rows=file.read())
        except UserError:
            continue
    return found


def look_at_other_machines(
    place: str, rows: pd.DataFrame, known: Mapping[str, ComparisonResults], names: Mapping[str, str]
) -> OtherMachines:
    """Find the same comparison on other machines: by its columns, never by the file's name.

    Args:
        place: of the new result, which begins with its machine's folder.
        rows: what was measured.
        known: committed comparisons of all machines, by place.
        names: of machines, by folder.
    """
    new = ComparisonResults(stem=place.rpartition("/")[2], rows=rows)
    settings = settings_of(new)
    if not settings:
        return OtherMachines(reason=f"{new.reference}, its reference, was not timed, so it has no speed-up")
    others = {it: one for it, one in known.items() if machine_of(it) != machine_of(place)}
    alike = {it: one for it, one in others.items() if settings_of(one) == settings and _shared(new, one)}
    best: dict[str, ComparisonResults] = {}  # of each machine that with most of the same backends
    for it in sorted(alike, key=lambda it: (-_shared(new, alike[it]), len(alike[it].stem), it)):
        best.setdefault(names.get(machine_of(it), machine_of(it)), alike[it])
    here = f"here: {names.get(machine_of(place), machine_of(place)) or 'this machine'}"
    same = compare_machines({here: new, **best})
    backends = [one for one in same.backends if here in one.speedups]
    if not backends:
        return OtherMachines(reason=_nearest(settings, new, others))
    return OtherMachines(
        same=replace(same, backends=backends),
        differences=[
            f"{machine}: {words}" for machine, one in best.items() if (words := _differences(one, new))
        ],
    )


def machine_of(place: str) -> str:
    """The folder of the machine in a file's place; empty for a file outside of such."""
    return place.split("/")[0] if "/" in place else ""


def _shared(new: ComparisonResults, other: ComparisonResults) -> int:
    """How many backends have speed-ups in both."""
    mine, theirs = backends_of(new), backends_of(other)
    return sum(theirs.get(name) == choices for name, choices in mine.items())


def _nearest(
    settings: Mapping[str, str], new: ComparisonResults, others: Mapping[str, ComparisonResults]
) -> str:
    """That there is no such comparison, and which is the nearest one of this model."""
    model = distinct_text(new.rows, "model")
    unequal = {
        it: [
            f"{column} ({theirs[column] or 'none'}, here {value or 'none'})"
            for column, value in settings.items()
            if theirs[column] != value
        ]
        for it, one in others.items()
        if (theirs := settings_of(one)).get("model") == model
    }
    if not unequal:
        return f"no other machine has a result of {model}; the same command there would give one"
    it = min(unequal, key=lambda it: (len(unequal[it]), it))
    words = _shorten(unequal[it]) or "none of its backends is the same"
    return f"no other machine has made this comparison; nearest is {it}: {words}"


def _differences(other: ComparisonResults, new: ComparisonResults) -> str:
    lines = find_differences(latest_environment(other.rows), latest_environment(new.rows), other_is="here")
    return _shorten([line for line in lines if not line.startswith(OF_THE_MACHINE)])


def _shorten(parts: Iterable[str]) -> str:
    shown = [one_line(part) for part in parts]
    more = [f"{len(shown) - MOST_DIFFERENCES} more"] if len(shown) > MOST_DIFFERENCES else []
    return "; ".join([*shown[:MOST_DIFFERENCES], *more])
