"""What this machine has: cores, memory, GPUs."""

import functools
import os

from bench.machine.gpus import visible_gpus


def default_device() -> str:
    """`cuda` where a GPU is visible, else `cpu`."""
    return "cuda" if available_gpus() else "cpu"


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


@functools.cache
def available_gpus() -> int:
    """How many GPUs are visible; asked once, since some drivers take a second to wake up."""
    return len(visible_gpus())


def memory_bytes() -> int:
    """This machine's memory; not by psutil, which takes longer to import than the rest of this package."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
