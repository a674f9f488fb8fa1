"""Runs of the real command, one on each core."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType

import pandas as pd

from bench.results import csv_files
from bench.setup.checkout import ROOT

Ran = tuple[subprocess.CompletedProcess[str], pd.DataFrame]
"""What a command printed, and the rows of the results file that it left."""


def on_cores(cores: set[int]) -> tuple[str, ...]:
    """What to write before a command that shall keep to these."""
    return ("taskset", "--cpu-list", ",".join(map(str, sorted(cores))))


def bench(
    folder: Path,
    *overrides: str,
    cwd: Path = ROOT,
    cores: set[int] | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Ran:
    """Run `bench` on a CPU, in which all launches fork their ranks from the same processes."""
    done = subprocess.run(
        [
            *on_cores(cores or os.sched_getaffinity(0)),
            *(sys.executable, "-m", "tests.support.on_any_machine", "--forked", "bench", "device=cpu"),
            *(f"results_dir={folder}/results", f"reports_dir={folder}/reports", *overrides),
        ],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    (written,) = csv_files.list_files(folder / "results")
    return done, pd.read_csv(written)


def side_by_side(commands: Mapping[str, Callable[[set[int]], Ran]]) -> dict[str, Ran]:
    """Run comparisons of one rank two at a time, each on a core of its own."""
    cores: SimpleQueue[int] = SimpleQueue()
    for core in sorted(os.sched_getaffinity(0))[:2]:
        cores.put(core)

    def on_a_core(command: Callable[[set[int]], Ran]) -> Ran:
        core = cores.get()
        try:
            return command({core})
        finally:
            cores.put(core)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(commands, pool.map(on_a_core, commands.values()), strict=True))
