"""Which results files a command is given, and where its report goes."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.errors import UserError
from bench.report.content.collection import ReportedComparison, collect
from bench.results.csv_files import list_files
from bench.results.machines import FILE, list_machines

RENDERED = Path("rendered")
"""Where reports of this machine alone go (`reports_dir` in conf/config.yaml); git ignores it."""

REPRODUCED = "reproduce"
OTHERS = ("bench",)
"""Folders of a machine's results: what its page answers from first, and what else it shows."""


def read_results(given: Iterable[Path]) -> tuple[Sequence[ReportedComparison], Sequence[str]]:
    """Read files, those right inside folders, and those of machines whose speed-ups are results; none twice.

    Returns:
        The comparisons, and a sentence for each file that could not be read.

    Raises:
        UserError: a folder holds no results file, or no file could be read.
    """
    paths = [path for place in given for path in (_files_in(place) if place.is_dir() else [place])]
    collection = collect({path.resolve(): path for path in paths}.values())
    if not collection.comparisons:
        raise UserError(" ".join(collection.refused))
    return collection.comparisons, collection.refused


def _files_in(folder: Path) -> list[Path]:
    machines = [folder] if is_machine(folder) else list_machines(folder)
    studies = [machine / study for machine in machines for study in (REPRODUCED, "bench")]
    return files_of(*studies) or list_files(folder)


def files_of(*folders: Path) -> list[Path]:
    """The results files right inside each of these folders, of which any may be missing or empty."""
    return [path for folder in folders for path in sorted(folder.glob("*.csv")) if "." not in path.stem]


def is_machine(folder: Path) -> bool:
    """Whether this is the folder of a machine."""
    return (folder / FILE).exists()


def reported_folders(results_dir: Path, reports_dir: Path) -> tuple[Path, Path]:
    """The folder to report on after a study was measured, its whole machine, and where the report goes."""
    machine = results_dir.parent
    return (machine, reports_dir / machine.name) if is_machine(machine) else (results_dir, reports_dir)
