"""Measures one rank in one phase: differences of counters, and the kernel's own peaks."""

import os
from typing import Any

from bench.machine.telemetry.cpu import clock_mhz, core_time, cpu_seconds, page_faults, throttle_count
from bench.machine.telemetry.gpu_meter import GpuMeter, GpuSample
from bench.machine.telemetry.host_memory import anonymous_peak, read_host_memory, reset_host_peak


class RankMeter:
    """Measures a phase between `start` and `stop`; `prepare` comes before, outside the clock."""

    def __init__(self, device: GpuMeter) -> None:
        self.device = device
        self.absent = device.absent  # why a figure is None, by its name
        self.cores = sorted(os.sched_getaffinity(0))
        self._peak_is_of_the_phase = True  # from the start of the process on

    def prepare(self, *, new_peak: bool = True) -> None:
        """Do what takes long before a phase; `new_peak` resets the peak of host memory."""
        if new_peak:
            self._peak_is_of_the_phase = reset_host_peak()
        self._memory_before = read_host_memory()
        self._device_before = self._sample()
        # Not when the clock starts: ranks queue for the driver, and would begin one after the other.
        self._energy = self.device.energy_joules()
        self._throttles = throttle_count(self.cores)
        self._core_time = core_time(self.cores)
        self._own_seconds = cpu_seconds()

    def start(self) -> None:
        """Read the counters at the moment in which the clock starts."""
        self._faults = page_faults()
        self._cpu = cpu_seconds()

    def stop(self) -> dict[str, Any]:
        """The phase's figures, named as in `bench.results.records.Phase`; call it right after the clock."""
        cpu, faults = cpu_seconds(), page_faults()
        energy = self.device.energy_joules()
        device_ends = (*self._device_before, *self._sample())
        clock, throttles = clock_mhz(self.cores), throttle_count(self.cores)
        if clock is None:
            self.absent["cpu_clock_mhz"] = "the kernel does not report the processor's clock here"
        if throttles is None:
            self.absent["cpu_throttles"] = "the kernel does not count thermal throttling here"
        others, stolen = self._time_of_others()
        memory = read_host_memory() if self._peak_is_of_the_phase else None
        if memory is None:
            self.absent["host_peak_bytes"] = "/proc/self/clear_refs or status cannot be used here"
        return {
            "cpu_seconds": cpu - self._cpu,
            "page_faults": faults - self._faults,
            "cpu_clock_mhz": clock,
            "cpu_throttles": _difference(throttles, self._throttles),
            "other_cpu_seconds": others,
            "stolen_seconds": stolen,
            "host_peak_bytes": memory.peak if memory else None,
            "host_anonymous_peak_bytes": anonymous_peak(self._memory_before, memory) if memory else None,
            "device_used_bytes": self.device.used_bytes(),
            "device_process_bytes": self.device.process_bytes(),
            "energy_joules": _difference(energy, self._energy),
            "device_ends": device_ends,
        }

    def _sample(self) -> tuple[GpuSample, ...]:
        return (self.device.sample(),) if self.device.is_read else ()

    def _time_of_others(self) -> tuple[float | None, float | None]:
        now, own = core_time(self.cores), cpu_seconds()
        before = self._core_time
        if now is None or before is None:
            reason = "/proc/stat does not list this rank's cores"
            self.absent |= {"other_cpu_seconds": reason, "stolen_seconds": reason}
            return None, None
        return (now.busy - before.busy) - (own - self._own_seconds), now.stolen - before.stolen


def _difference(now: Any, before: Any) -> Any:
    return None if now is None or before is None else now - before
