"""Which results files a command is given."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.report.collection import Collection, ReportedComparison, collect
from bench.results.csv_files import list_files

REPRODUCED = "reproduce"
METHODS = "methods"
CLAIMS = "claims"
ADVICE = "advise"
SCALE = "scale"
BY_MACHINE = (REPRODUCED, METHODS, CLAIMS, ADVICE, SCALE)
"""The folders of the commands of these names inside that of all results; each machine has its own in them."""

RUNS = "runs"
"""A folder of raw runs, beside results."""


def read_results(given: Iterable[Path]) -> tuple[Sequence[ReportedComparison], Sequence[str]]:
    """Read files, and those right inside folders; none twice.

    Returns:
        The comparisons, and a sentence for each file that could not be read.

    Raises:
        UserError: a folder holds no results file.
    """
    paths = [path for one in given for path in (list_files(one) if one.is_dir() else [one])]
    collection = collect({path.resolve(): path for path in paths}.values())
    return collection.comparisons, collection.refused


def read_of_every_machine(results_dir: Path, name: str) -> Collection:
    """The comparisons of one of `BY_MACHINE` on every machine; none if it has not run.

    Args:
        results_dir: of all results.
        name: of the folder in it.
    """
    machines = [
        collect(sorted(folder.glob("*.csv")), f"{name}/{folder.name}")
        for folder in sorted((results_dir / name).glob("*"))
        if folder.name != RUNS
    ]
    return Collection(
        comparisons=[comparison for one in machines for comparison in one.comparisons],
        refused=[sentence for one in machines for sentence in one.refused],
    )


def folder_of_all(results_dir: Path) -> Path:
    """The folder of all results, of which this one may be that of a machine."""
    return results_dir.parents[1] if results_dir.parent.name in BY_MACHINE else results_dir
