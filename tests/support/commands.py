"""Runs of the real command, one on each core."""

import os
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pandas as pd

Ran = tuple[subprocess.CompletedProcess[str], pd.DataFrame]
"""What a command printed, and the rows of the results file that it left."""


def on_cores(cores: set[int]) -> tuple[str, ...]:
    """What to write before a command that shall keep to these."""
    return ("taskset", "--cpu-list", ",".join(map(str, sorted(cores))))


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
