"""Runs of the real command."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from bench.results import csv_files
from bench.results.columns import HASHES
from bench.setup.checkout import ROOT
from tests.support.python import run_python

Ran = tuple[subprocess.CompletedProcess[str], pd.DataFrame]
"""What a command printed, and the rows of the results file that it left."""


def bench(
    folder: Path,
    *overrides: str,
    cwd: Path = ROOT,
    variables: Mapping[str, str] = MappingProxyType({}),
    own_pages: bool = False,
) -> Ran:
    """Run `bench` on a CPU, in which all launches fork their ranks from the same processes.

    What ranks take of memory is as without tests only with `own_pages`.
    """
    done = run_python(
        *("-m", "tests.support.on_any_machine", *["--own-pages"] * own_pages, "--forked"),
        *("bench", "device=cpu"),
        *(f"results_dir={folder}/results", f"reports_dir={folder}/reports", *overrides),
        cwd=cwd,
        variables=variables,
    )
    (written,) = csv_files.list_files(folder / "results")
    return done, pd.read_csv(written, dtype=HASHES)
