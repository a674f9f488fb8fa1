"""Reads one GPU through NVML: memory, energy, clock, load. What it cannot read is None, with the reason."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

THROTTLED = {
    "SwPowerCap": "power cap",
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "temperature (driver)",
    "HwThermalSlowdown": "temperature (hardware)",
    "HwPowerBrakeSlowdown": "power brake",
}
"""NVML's reasons for clocks below what the load would allow, as they are named in the results.

Idleness and clocks that a user has set are not among them.
"""


NVML_SECONDS = 1.0
"""NVML's utilisation covers at most this last period: read sooner, it also covers earlier processes."""


@dataclass(frozen=True, kw_only=True)
class GpuSample:
    """How one GPU was doing at one moment; None where NVML cannot read it."""

    used_bytes: int | None  # of the whole device, by all processes
    utilisation_percent: float | None
    sm_clock_mhz: float | None
    temperature_c: float | None
    power_watts: float | None
    throttled_by: tuple[str, ...] | None


class GpuMeter:
    """Reads one GPU, found by its UUID since NVML ignores CUDA_VISIBLE_DEVICES."""

    def __init__(self, uuid: str | None) -> None:  # None on a CPU
        self.absent: dict[str, str] = {}  # why a figure is None, by its name
        self._nvml: Any = None
        self._handle: Any = None
        if uuid is None:
            self.absent["device"] = "there is no GPU: device memory and energy are blank"
            return
        import pynvml

        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml = pynvml
        except pynvml.NVMLError as error:
            self.absent["nvml"] = f"NVML: {error}"

    @property
    def is_read(self) -> bool:
        """Whether there is a GPU that NVML answers for."""
        return self._nvml is not None

    def used_bytes(self) -> int | None:
        """Memory in use on the whole device, by all processes."""
        # Version 2 of the answer leaves out what the driver keeps for itself.
        return self._ask(
            "device_used_bytes",
            lambda nvml, gpu: int(nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2).used),
        )

    def process_bytes(self) -> int | None:
        """Memory that the driver attributes to this process; None in most containers."""

        def own_bytes(nvml: Any, gpu: Any) -> int | None:
            if _has_the_driver_s_process_ids():
                for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu):
                    if process.pid == os.getpid() and process.usedGpuMemory is not None:
                        return int(process.usedGpuMemory)
            self.absent["device_process_bytes"] = "NVML does not list this process by its number here"
            return None

        return self._ask("device_process_bytes", own_bytes)

    def energy_joules(self) -> float | None:
        """Energy that the device has used since the driver was loaded: take differences."""
        return self._ask(
            "energy_joules",
            lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000,  # of mJ
        )

    def sample(self) -> GpuSample:
        """How the device is doing at this moment; takes well below a millisecond."""
        return GpuSample(
            used_bytes=self.used_bytes(),
            utilisation_percent=self._ask(
                "gpu_utilisation", lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu
            ),
            sm_clock_mhz=self._ask(
                "gpu_clock", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)
            ),
            temperature_c=self._ask(
                "gpu_temperature",
                lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
            ),
            power_watts=self._ask("gpu_power", lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
            throttled_by=self._ask("gpu_throttled_by", _throttle_reasons),
        )

    def _ask(self, name: str, question: Callable[[Any, Any], Any]) -> Any:
        """What NVML answers; None if it refuses, with its reason under `name` in `absent`."""
        if self._nvml is None:
            return None
        try:
            return question(self._nvml, self._handle)
        except self._nvml.NVMLError as error:
            self.absent[name] = f"NVML: {error}"
            return None


def _has_the_driver_s_process_ids() -> bool:
    """Whether this process is in the kernel's first namespace of process ids, whose numbers NVML uses.

    In any other its id may belong to a foreign process. Source: PROC_PID_INIT_INO in Linux's proc_ns.h.
    """
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == 0xEFFFFFFC
    except OSError:
        return False


def _throttle_reasons(nvml: Any, gpu: Any) -> tuple[str, ...]:
    # The name before driver 535, which later ones know, too; the bits are the same.
    bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
    return tuple(
        words for name, words in THROTTLED.items() if bits & getattr(nvml, f"nvmlClocksEventReason{name}")
    )
