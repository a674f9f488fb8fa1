"""NVML without a driver: nvidia-ml-py's functions and exceptions over a few invented GPUs."""

import types
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

A, B, C = "GPU-aa11-0001", "GPU-aa22-0002", "GPU-bb33-0003"
CARDS = {A: "NVIDIA H200", B: "NVIDIA H200", C: "Tesla T4"}


class FakeNvml(types.ModuleType):
    """Some GPUs.

    Args:
        at_init: what nvmlInit raises.
        cards: the names of the GPUs, by UUID.

    Attributes:
        used: bytes in use, by UUID.
        processes: (process id, bytes) pairs, by UUID.
        millijoules: the energy counter, by UUID.
        reasons: the bits of the clocks' event reasons.
        forbidden: names of functions that answer "Insufficient Permissions".
        reserved: bytes that the driver keeps for itself; version 1 of the memory call counts them as used.
        utilisation: percent.
        hidden: the GPUs that a cgroup keeps from this process.
        lost: the GPUs that have fallen off the bus.
        asked: every question put to a device, as (function, UUID).
    """

    NVML_CLOCK_SM = 1
    nvmlMemory_v2 = 0x02000028
    NVML_TEMPERATURE_GPU = 0
    nvmlClocksEventReasonSwPowerCap = 0x04
    nvmlClocksEventReasonHwSlowdown = 0x08
    nvmlClocksEventReasonSwThermalSlowdown = 0x20
    nvmlClocksEventReasonHwThermalSlowdown = 0x40
    nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x80

    class NVMLError(Exception):
        pass

    NVMLError_LibraryNotFound = type("NVMLError_LibraryNotFound", (NVMLError,), {})
    NVMLError_DriverNotLoaded = type("NVMLError_DriverNotLoaded", (NVMLError,), {})
    NVMLError_LibRmVersionMismatch = type("NVMLError_LibRmVersionMismatch", (NVMLError,), {})
    NVMLError_NotFound = type("NVMLError_NotFound", (NVMLError,), {})
    NVMLError_NoPermission = type("NVMLError_NoPermission", (NVMLError,), {})
    NVMLError_GpuIsLost = type("NVMLError_GpuIsLost", (NVMLError,), {})

    def __init__(
        self, at_init: Exception | None = None, *, cards: Mapping[str, str] = MappingProxyType(CARDS)
    ) -> None:
        super().__init__("pynvml")
        self.at_init = at_init
        self.cards = cards
        self.open = 0
        self.used = {A: 300 << 20, B: 5000 << 20, C: 7 << 20}
        self.processes: dict[str, list[tuple[int, int | None]]] = {}
        self.millijoules = {A: 1_000_000, B: 2_000_000, C: 3_000_000}
        self.reasons = 0
        self.forbidden: set[str] = set()
        self.reserved = 600 << 20
        self.utilisation = 97
        self.hidden: set[str] = set()
        self.lost: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    def nvmlInit(self) -> None:
        if self.at_init is not None:
            raise self.at_init
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "550.54.15"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        handle = list(self.cards)[index]
        if handle in self.hidden:
            raise self.NVMLError_NoPermission("Insufficient Permissions")
        if handle in self.lost:
            raise self.NVMLError_GpuIsLost("GPU is lost")
        return handle

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.cards:
            raise self.NVMLError_NotFound("Not Found")
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> str:
        return self.cards[handle]

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        self._answers("nvmlDeviceGetCudaComputeCapability", handle)
        return (7, 5) if self.nvmlDeviceGetName(handle) == "Tesla T4" else (9, 0)

    def nvmlDeviceGetCpuAffinity(self, handle: str, cpuSetSize: int) -> list[int]:
        self._answers("nvmlDeviceGetCpuAffinity", handle)
        return [0b1100] + [0] * (cpuSetSize - 1)

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int | None = None) -> SimpleNamespace:
        self._answers("nvmlDeviceGetMemoryInfo_v2" if version else "nvmlDeviceGetMemoryInfo", handle)
        total = 2**30 * (1 + list(self.cards).index(handle))
        return SimpleNamespace(total=total, used=self.used[handle] + (0 if version else self.reserved))

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        self._answers("nvmlDeviceGetComputeRunningProcesses", handle)
        listed = self.processes.get(handle, [])
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in listed]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        self._answers("nvmlDeviceGetTotalEnergyConsumption", handle)
        return self.millijoules[handle]

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        self._answers("nvmlDeviceGetUtilizationRates", handle)
        return SimpleNamespace(gpu=self.utilisation, memory=50)

    def nvmlDeviceGetClockInfo(self, handle: str, type: int) -> int:
        self._answers("nvmlDeviceGetClockInfo", handle)
        return {self.NVML_CLOCK_SM: 1755}[type]

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        self._answers("nvmlDeviceGetTemperature", handle)
        return {self.NVML_TEMPERATURE_GPU: 61}[sensor]

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        self._answers("nvmlDeviceGetPowerUsage", handle)
        return 512_500

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        self._answers("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return self.reasons

    def _answers(self, function: str, handle: str) -> None:
        """Note the question; raise what NVML would."""
        self.asked.append((function, handle))
        if function in self.forbidden:
            raise self.NVMLError_NoPermission("Insufficient Permissions")


def functions() -> dict[str, Any]:
    """What the fake says that NVML has, by name."""
    return {name: value for name, value in vars(FakeNvml).items() if name.startswith(("nvml", "NVML"))}
