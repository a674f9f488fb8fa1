"""Chooses and groups the results for a figure or table of many models."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.errors import UserError
from bench.report.content.collection import Collection, ReportedComparison, collect
from bench.report.content.models import answered_backends
from bench.report.files import OTHERS, REPRODUCED, files_of, is_machine
from bench.report.words.formatting import one_line
from bench.results.csv_files import list_files
from bench.results.machines import list_machines


def read_results(given: Iterable[Path]) -> tuple[Sequence[ReportedComparison], Sequence[str]]:
    """Read files, those right inside folders, and those of machines whose speed-ups are results; none twice.

    Also a sentence for each file that could not be read; UserError if there is no other.
    """
    paths = [path for place in given for path in (_files_in(place) if place.is_dir() else [place])]
    collection = collect({path.resolve(): path for path in paths}.values())
    if not collection.comparisons:
        raise UserError(" ".join(collection.refused))
    return collection.comparisons, collection.refused


def _files_in(folder: Path) -> list[Path]:
    machines = [folder] if is_machine(folder) else list_machines(folder)
    studies = [machine / study for machine in machines for study in (REPRODUCED, *OTHERS)]
    return files_of(*studies) or list_files(folder)


def parse_names(words: str) -> list[str]:
    """The names in a list such as `gpt2,bert-large`."""
    return [name.strip() for name in words.split(",") if name.strip()]


def panels_of(comparisons: Sequence[ReportedComparison]) -> dict[str, list[ReportedComparison]]:
    """Comparisons by machine, rule of batches and reference, which its heading names."""
    machines = Collection(comparisons=comparisons).panels
    if len({comparison.reference for comparison in comparisons}) < 2:
        return machines
    panels: dict[str, list[ReportedComparison]] = {}
    for heading, group in machines.items():
        for comparison in group:
            panels.setdefault(f"{heading}; over {one_line(comparison.reference)}", []).append(comparison)
    return panels


def choose_backends(comparisons: Sequence[ReportedComparison], wanted: Sequence[str]) -> list[str]:
    """The wanted backends, or those tried of `ANSWERED`; UserError if one, or any at all, is missing."""
    there = {other.backend for comparison in comparisons for other in comparison.others}
    references = {comparison.reference for comparison in comparisons}
    for name in wanted:
        if name in references:
            raise UserError(f"{name} is the reference, which is the line at 1", "leave it out of --backends")
        if name not in there:
            raise UserError(f"no comparison has the backend {name}", f"choose of {', '.join(sorted(there))}")
    chosen = list(dict.fromkeys(wanted)) or answered_backends(comparisons)
    if not chosen:
        raise UserError("these comparisons have no backend beside the reference", "measure another one")
    return chosen


def choose_models(
    comparisons: Sequence[ReportedComparison], wanted: Sequence[str]
) -> list[ReportedComparison]:
    """The comparisons of these models, or all if none is wanted; UserError if one is in no comparison."""
    there = sorted({comparison.model for comparison in comparisons})
    if unknown := [name for name in wanted if name not in there]:
        raise UserError(f"no comparison is of the model {unknown[0]}", f"choose of {', '.join(there)}")
    return [comparison for comparison in comparisons if not wanted or comparison.model in wanted]


def showable(
    comparisons: Sequence[ReportedComparison], *, as_speedup: bool
) -> tuple[list[ReportedComparison], list[str]]:
    """The comparisons whose numbers are results, and a sentence for each other; UserError if none is left."""
    kept, left_out = [], []
    for comparison in comparisons:
        if comparison.uncontrolled:
            reason = "it leaves threads or allocator alone on purpose"
        elif {"ok", "untimed"} & {summary.status for summary in comparison.summaries} == {"untimed"}:
            reason = "nothing of it was timed"
        elif comparison.at_largest and not as_speedup:
            reason = "each backend fills the memory with another batch"
        else:
            kept.append(comparison)
            continue
        left_out.append(f"{comparison.stem} is left out: {reason}")
    if not kept:
        reasons = f" ({'; '.join(left_out)})" if left_out else ""
        raise UserError(f"there is no comparison to show{reasons}", "measure with `make bench`")
    return kept, left_out
