"""Many small jobs on all cores."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")

FEW = 32
"""Up to so many jobs other processes are not worth their start."""

_jobs: Sequence[Callable[[], Any]] = ()


def run(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Their results, in order. The jobs reach the other processes by fork, so that they may be anything."""
    cores = len(os.sched_getaffinity(0))
    if len(jobs) <= FEW or cores == 1:
        return [job() for job in jobs]
    global _jobs
    _jobs = jobs
    try:
        with multiprocessing.get_context("fork").Pool(min(cores, len(jobs)), _leave_signals) as pool:
            return pool.map(_run, range(len(jobs)), chunksize=4)
    finally:
        _jobs = ()


def _leave_signals() -> None:
    """Ctrl-C is for the process that waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(number: int) -> Any:
    return _jobs[number]()
