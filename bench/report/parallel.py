"""Runs many small jobs on all cores."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")

MOST_IN_SEQUENCE = 32
"""Up to so many jobs, other processes take longer to start than they save."""

_jobs: Sequence[Callable[[], Any]] = ()


def run(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run the jobs and return their results, in order.

    The jobs reach the other processes by fork, so that they may be closures, which cannot be pickled.
    """
    cores = len(os.sched_getaffinity(0))
    if len(jobs) <= MOST_IN_SEQUENCE or cores == 1:
        return [job() for job in jobs]
    global _jobs
    _jobs = jobs
    try:
        with multiprocessing.get_context("fork").Pool(
            min(cores, len(jobs)), _leave_signals_to_parent
        ) as pool:
            return pool.map(_run, range(len(jobs)), chunksize=4)
    finally:
        _jobs = ()


def _leave_signals_to_parent() -> None:
    """Ctrl-C ends the process that waits, and that ends the others: by SIGTERM, as it does when all is done.

    A handler of SIGTERM that they inherit would print a traceback then.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(number: int) -> Any:
    return _jobs[number]()
