"""Which results files a command is given."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.report.collection import Collection, ReportedComparison, collect
from bench.results.csv_files import list_files

REPRODUCED = "reproduce"
"""The folder of `make reproduce` inside that of all results; each machine has one of its own in it."""


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


def read_reproduced(results_dir: Path) -> Collection:
    """The comparisons of `make reproduce` on every machine; none if it has not run."""
    machines = [
        collect(sorted(folder.glob("*.csv")), f"{REPRODUCED}/{folder.name}")
        for folder in sorted((results_dir / REPRODUCED).glob("*"))
    ]
    return Collection(
        comparisons=[comparison for one in machines for comparison in one.comparisons],
        refused=[sentence for one in machines for sentence in one.refused],
    )
