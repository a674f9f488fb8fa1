"""Whole comparisons for tests to look at: their rows, their failures, what they printed."""

import csv
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from bench.config.schema import Config
from bench.config.training import Precision
from bench.launch.group import Group
from bench.machine.telemetry.other_processes import CoreScan, Scan
from bench.measure.comparison import Comparison
from bench.measure.record.progress import ProgressBar
from bench.results import csv_files
from tests.support.configs import BACKENDS, a_config
from tests.support.fakes import FakeGroup, Script, starter


class RecordingBar(ProgressBar):
    """Keeps the lines that stay, and shows nothing."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
        self.printed: list[str] = []

    def print_line(self, line: str) -> None:
        self.printed.append(line)


def find_nobody(seconds: float) -> CoreScan:
    """Stands for a look at the cores; takes no time and sees nobody."""
    return CoreScan(taken_seconds=0.0, competitors=())


class Simulated:
    """One comparison over fake groups: its rows, its failures, the groups that were started."""

    def __init__(
        self,
        folder: Path,
        changes: dict[str, Script] | None = None,
        clock: Callable[[], float] = lambda: 0.0,
        scan: Scan = find_nobody,
        precision: str = "fp32",
        backends: dict[str, dict[str, Any]] | None = None,
        **measure: Any,
    ) -> None:
        scripts: dict[str, Script] = {
            "pytorch": {"step_seconds": 0.5},
            "ortmodule": {"step_seconds": 0.4},
            "ortmodule_zero1": {"step_seconds": 0.8},
        }
        for name, change in (changes or {}).items():
            scripts[name] |= change
        self.groups: list[FakeGroup] = []
        config = a_config(folder, **measure)
        config.precision = Precision(name=precision)
        for name, choices in (backends or {}).items():
            config.backends[name] = dataclasses.replace(config.backends[name], **choices)
        comparison = Comparison(
            config,
            "m-cpux2",
            start_group=cast(Any, starter(scripts, self.groups)),
            scan=scan,
            clock=clock,
            bar=(bar := RecordingBar()),
        )
        self.printed = bar.printed
        comparison.measure()
        self.comparison = comparison
        self.failures = comparison.shared.failures.failure_lines()
        with comparison.shared.output.csv.open(encoding="utf-8", newline="") as file:
            self.rows = list(csv.DictReader(file))

    def of(self, backend: str) -> list[dict[str, str]]:
        return [row for row in self.rows if row["backend"] == backend]


class Resumable:
    """One run of the same comparison: its rows afterwards, its groups, what it printed."""

    def __init__(self, folder: Path, changes: dict[str, Script] | None = None, **settings: Any) -> None:
        scripts: dict[str, Script] = {name: {"step_seconds": 0.5} for name in BACKENDS}
        for name, change in (changes or {}).items():
            scripts[name] |= change
        config = a_config(folder, **settings.pop("measure", {}))
        for key, value in settings.items():
            setattr(config, key, value)
        self.groups: list[FakeGroup] = []
        bar = RecordingBar()
        self.printed = bar.printed
        start_group = cast(Any, starter(scripts, self.groups))
        self.comparison = Comparison(config, "m-cpux2", start_group=start_group, scan=find_nobody, bar=bar)
        self.comparison.measure()
        self.failures = self.comparison.shared.failures.failure_lines()
        self.rows = rows_of(folder)


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The rows of the results file as text, with what it says once in all of them."""
    return cells_of(folder / "results" / "m-cpux2.csv")


def cells_of(path: Path) -> list[dict[str, str]]:
    """The cells of a results file as they are written, but for what stands there once."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    whole = csv_files.read(path)
    once = [*csv_files.REPEATED, "environment"]
    for row, cells in zip(rows, whole[once].to_dict("records"), strict=True):
        row |= {str(name): str(cell) for name, cell in cells.items()}
    return rows


class Outcome:
    """A comparison with something wrong: its rows, the failures it lists, what it printed."""

    pids: set[int]

    def __init__(self, config: Config, start_group: type[Group] = Group) -> None:
        bar = RecordingBar()
        self.printed = bar.printed
        self.comparison = Comparison(config, "m-cpux2", start_group=start_group, bar=bar)
        self.comparison.measure()
        self.rows = self.comparison.shared.ledger.rows()
        self.failures = self.comparison.shared.failures.failure_lines()
        print(*self.failed(), sep="\n")  # pytest -rP shows the rows

    def failed(self) -> list[tuple[str, int, str, str]]:
        """Backend, launch, status and message of every row without a round."""
        rows = self.rows[self.rows["round"].isna()]
        return [(row.backend, int(row.launch), row.status, row.message) for row in rows.itertuples()]

    def rounds(self, backend: str) -> list[tuple[int, int]]:
        mine = self.rows[(self.rows["backend"] == backend) & self.rows["round"].notna()]
        rows = mine.drop_duplicates(["launch", "round"])  # on a noisy machine some are measured twice
        return list(zip(rows["launch"], rows["round"], strict=True))
