"""Which results files a command reads, and where its report goes."""

from pathlib import Path

from bench.results.machines import FILE

RENDERED = Path("rendered")
"""Where reports of this machine alone go (`reports_dir` in conf/config.yaml); git ignores it."""

REPRODUCED = "reproduce"
OTHERS = ("bench",)
"""Folders of a machine's results: those for the answer of its page, and others that it shows."""


def files_of(*folders: Path) -> list[Path]:
    """The results files right inside each of these folders; a folder may be missing or empty."""
    return [path for folder in folders for path in sorted(folder.glob("*.csv")) if "." not in path.stem]


def is_machine(folder: Path) -> bool:
    """Whether this is the folder of a machine."""
    return (folder / FILE).exists()


def reported_folders(results_dir: Path, reports_dir: Path) -> tuple[Path, Path]:
    """The folder to report on after a study was measured, its whole machine, and where the report goes."""
    machine = results_dir.parent
    return (machine, reports_dir / machine.name) if is_machine(machine) else (results_dir, reports_dir)
