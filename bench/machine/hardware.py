"""What this machine has: cores, memory, GPUs."""

import functools
import os
from pathlib import Path

from bench.machine.gpus import Gpu, visible_gpus


def default_device() -> str:
    """`cuda` where a GPU is visible, else `cpu`."""
    return "cuda" if available_gpus() else "cpu"


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def default_precision(device: str) -> str:
    """The precision of this hardware's tensor cores: bf16 from Ampere on, fp16 before; without any fp32."""
    gpus = _gpus() if device == "cuda" else ()
    capability = min((gpu.capability for gpu in gpus), default=(0, 0))
    return "bf16" if capability >= (8, 0) else "fp16" if capability >= (7, 0) else "fp32"


def available_gpus() -> int:
    """How many GPUs are visible."""
    return len(_gpus())


@functools.cache
def _gpus() -> tuple[Gpu, ...]:
    """Asked once, since some drivers take a second to wake up."""
    return tuple(visible_gpus())


def available_bytes() -> int:
    """The kernel's estimate of the memory that programs can take before this machine swaps or stalls."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024


def memory_bytes() -> int:
    """This machine's memory; not by psutil, which takes longer to import than the rest of this package."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
