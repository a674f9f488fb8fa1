"""NVML as every process sees it: equal GPUs, whose memory is what living processes have noted down."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

from tests.support.fake_nvml import FakeNvml
from tests.support.pretended_gpu import COUNT, FOLDER, MEMORY, has_fault

NAME = "NVIDIA Pretended"
MIB = 1 << 20
CONTEXT = 300 * MIB
"""Bytes that a process has on a GPU besides its tensors."""

WATTS = 200


def uuid(index: int) -> str:
    """NVML's name of a GPU."""
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def visible() -> list[str]:
    """The GPUs that CUDA shows to this process, in its order."""
    every = [uuid(index) for index in range(int(os.environ[COUNT]))]
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return every
    return [each if each in every else every[int(each)] for each in setting.split(",") if each]


def total_bytes() -> int:
    """Memory of each GPU."""
    return int(os.environ[MEMORY]) * MIB


def notes_of(gpu: str) -> Path:
    """The folder in which processes note how many bytes they have there, each in a file of its own."""
    return Path(os.environ[FOLDER]) / gpu


class PretendedNvml(FakeNvml):
    """So many GPUs as the environment says; a joule is a joule of the machine's clock."""

    def __init__(self) -> None:
        super().__init__(cards={uuid(index): NAME for index in range(int(os.environ[COUNT]))})
        self._clock_mhz = 1755

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        """Looks at the fault now: a rank is forked from a process that did not have it."""
        return self.nvmlClocksEventReasonSwPowerCap if has_fault("throttled") else self.reasons

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int | None = None) -> SimpleNamespace:
        used = sum(size for _, size in _processes(handle))
        return SimpleNamespace(total=total_bytes(), used=used, free=total_bytes() - used)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in _processes(handle)]

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        """Whoever is there is at work."""
        busy = 50 if has_fault("waiting") else 97
        return SimpleNamespace(gpu=busy if _processes(handle) else 0, memory=50)

    def nvmlDeviceGetClockInfo(self, handle: str, type: int) -> int:
        if has_fault("falling-clock"):
            self._clock_mhz = int(0.97 * self._clock_mhz)  # however many readings come before the blocks
        return self._clock_mhz

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return int(time.monotonic() * WATTS * 1000)


def _processes(gpu: str) -> list[tuple[int, int]]:
    """The living processes on a GPU, and the bytes that each has."""
    found = []
    for note in notes_of(gpu).glob("[0-9]*"):
        if Path("/proc", note.name).exists():
            found.append((int(note.name), CONTEXT + int(note.read_text() or 0)))
    return found
