"""The Python interface: measure a comparison, and read one that was measured."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.config.compose import compose
from bench.measure.comparison import measure_comparison
from bench.measure.plan.preflight import check_and_name
from bench.results import csv_files
from bench.statistics.summary import BackendSummary, summarise


@dataclass(frozen=True, kw_only=True)
class Result:
    """One comparison."""

    csv: Path  # the results file
    rows: pd.DataFrame  # one for each backend, launch and block; the columns: bench/results/columns.py
    backends: list[BackendSummary]  # the reference first; speed, interval, verdict, memory

    def __getitem__(self, backend: str) -> BackendSummary:
        """The summary of a backend by its name; KeyError if the comparison does not have it."""
        return {summary.backend: summary for summary in self.backends}[backend]


def measure(*overrides: str) -> Result:
    """Measure what `make bench ARGS="…"` measures with these overrides, and write the same results file.

    Launches that fail are rows with a status, not errors. UserError for a configuration that this machine
    cannot train, before anything is started.
    """
    config = compose(overrides)
    return read(measure_comparison(config, check_and_name(config)).csv)


def read(csv: Path | str) -> Result:
    """The comparison in a results file; UserError if it cannot be read."""
    path = Path(csv)
    rows = csv_files.read(path)
    return Result(csv=path, rows=rows, backends=summarise(rows))
