"""Does work in forked processes, so that a report takes all cores that this process may use."""

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from bench.launch.lifeline import die_with
from bench.machine.hardware import available_cores

Result = TypeVar("Result")


@contextmanager
def side_by_side(jobs: Sequence[Callable[[], Result]]) -> Iterator[Iterator[Result]]:
    """What each job returns, in their order; the caller goes on meanwhile, and at the end all are done.

    What a job returns is pickled, it itself is not. The jobs of a job are done in its own process.
    """
    processes = min(len(jobs), available_cores())
    if processes < 2 or multiprocessing.parent_process():
        yield iter([job() for job in jobs])
        return
    fork = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(processes, fork, initializer=_start, initargs=(os.getpid(), jobs))
    futures = [pool.submit(_do, number) for number in range(len(jobs))]
    try:
        yield (future.result() for future in futures)
        for future in futures:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)


_jobs: Sequence[Callable[[], Any]] = ()  # of the parent of this process


def _start(parent: int, jobs: Sequence[Callable[[], Any]]) -> None:
    global _jobs
    _jobs = jobs
    die_with(parent)
    gc.set_threshold(100_000)  # a figure has many objects; looking for garbage takes a sixth of its time
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to all; the parent answers
        signal.signal(number, signal.SIG_IGN)


def _do(number: int) -> Any:
    return _jobs[number]()
