"""The GPUs of a worker group, looked at by the coordinator while it waits for the group."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from bench.machine.telemetry.gpu_sample import GpuSample

PERIOD_SECONDS = 0.5

LARGEST_SHARE = 0.005
"""Of a core, for looking; where NVML is slow or the GPUs are many, the sampler looks less often."""

BUSY_PERCENT = 5.0
BUSY_BYTES = 600 << 20
"""Utilisation and memory of a device above which somebody else seems to use it."""

MOST_LOOKS = 4
SECONDS_BETWEEN_LOOKS = 1.0


class SampledDevice(Protocol):
    """`bench.machine.telemetry.gpu_meter.GpuMeter`, or one of another node."""

    absent: dict[str, str]

    def sample(self) -> GpuSample:
        """Everything about the device at this moment."""


class GpuSampler:
    """Samples of every device since `start`; no thread, so that nothing runs but when it is asked to.

    Args:
        devices: the group's, by rank; none on a CPU.
        clock: seconds.
        cpu_clock: CPU seconds of the calling thread.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        devices: Sequence[SampledDevice],
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.devices = devices
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._sleep = sleep
        self._due = clock()
        self._samples: list[tuple[GpuSample, ...]] = []

    def look(self) -> tuple[GpuSample, ...]:
        """Every device at this moment."""
        return tuple(device.sample() for device in self.devices)

    def look_before_a_group(self) -> tuple[GpuSample, ...]:
        """Every device while nothing of ours runs: what others do there.

        A group that has just ended may still be seen, in NVML's utilisation for up to a second, so a busy
        device gets another look.
        """
        for _ in range(MOST_LOOKS - 1):
            seen = self.look()
            if not any(map(_busy, seen)):
                return seen
            self._sleep(SECONDS_BETWEEN_LOOKS)
        return self.look()

    def absent(self) -> dict[str, str]:
        """Why a figure is None, by its name."""
        return {name: reason for device in self.devices for name, reason in device.absent.items()}

    def start(self) -> None:
        """A phase begins now: forget what was seen before, and first look after a period."""
        self._samples = []
        self._due = self._clock() + PERIOD_SECONDS

    def seconds_until_due(self) -> float:
        """How long to wait before the next `sample`; infinite without devices."""
        return max(0.0, self._due - self._clock()) if self.devices else float("inf")

    def sample(self) -> None:
        """Look at every device if it is time to."""
        if self.seconds_until_due() > 0:
            return
        start = self._cpu_clock()
        self._samples.append(self.look())
        cost = self._cpu_clock() - start
        self._due = self._clock() + max(PERIOD_SECONDS, cost / LARGEST_SHARE)

    def take(self) -> tuple[tuple[GpuSample, ...], ...]:
        """For every device its samples since `start` or the last `take`."""
        taken, self._samples = self._samples, []
        return tuple(zip(*taken, strict=True)) if taken else ()


def _busy(sample: GpuSample) -> bool:
    return (sample.utilisation_percent or 0) > BUSY_PERCENT or (sample.used_bytes or 0) > BUSY_BYTES
