"""Samples the GPUs of a worker group, in the coordinator while it waits for the group."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.machine.telemetry.gpu_meter import NVML_SECONDS, GpuSample

PERIOD_SECONDS = 0.5

LARGEST_SHARE = 0.005
"""The most of a core that sampling may take: many GPUs, or a slow NVML, are sampled less often."""

BUSY_PERCENT = 5.0
BUSY_BYTES = 600 << 20  # utilisation and memory of a device above which another process seems to use it

MOST_LOOKS = 4
SECONDS_BETWEEN_LOOKS = 1.0


class SampledDevice(Protocol):
    """A `GpuMeter`, or an object that reads a GPU of another node."""

    absent: dict[str, str]

    def sample(self) -> GpuSample:
        """How the device is doing at this moment."""


@dataclass
class GpuSampler:
    """Samples of every device since `start`; without a thread, so that nothing runs unless it is called."""

    devices: Sequence[SampledDevice]  # the group's, by rank; none on a CPU
    clock: Callable[[], float] = time.monotonic  # seconds
    cpu_clock: Callable[[], float] = time.thread_time  # CPU seconds of the calling thread
    sleep: Callable[[float], None] = time.sleep  # waits for a number of seconds

    def __post_init__(self) -> None:
        self._due = self.clock()
        self._samples: list[tuple[GpuSample, ...]] = []

    def look(self) -> tuple[GpuSample, ...]:
        """A sample of every device at this moment."""
        return tuple(device.sample() for device in self.devices)

    def look_before_a_group(self) -> tuple[GpuSample, ...]:
        """Samples before a group starts, taken again while one that has just ended may still be seen."""
        for _ in range(MOST_LOOKS - 1):
            samples = self.look()
            if not any(map(_is_busy, samples)):
                return samples
            self.sleep(SECONDS_BETWEEN_LOOKS)
        return self.look()

    def absent(self) -> dict[str, str]:
        """Why a figure is None, by its name."""
        return {name: reason for device in self.devices for name, reason in device.absent.items()}

    def start(self) -> None:
        """Begin a phase: forget earlier samples, and take none until NVML's window lies within this phase."""
        self._samples = []
        self._due = self.clock() + NVML_SECONDS

    def seconds_until_due(self) -> float:
        """How long to wait before the next `sample`; infinite without devices."""
        return max(0.0, self._due - self.clock()) if self.devices else float("inf")

    def sample(self) -> None:
        """Take a sample of every device if it is due."""
        if self.seconds_until_due() > 0:
            return
        start = self.cpu_clock()
        self._samples.append(self.look())
        cost = self.cpu_clock() - start
        self._due = self.clock() + max(PERIOD_SECONDS, cost / LARGEST_SHARE)

    def take(self) -> tuple[tuple[GpuSample, ...], ...]:
        """For every device its samples since `start` or the last `take`."""
        samples, self._samples = self._samples, []
        return tuple(zip(*samples, strict=True)) if samples else ()


def _is_busy(sample: GpuSample) -> bool:
    return (sample.utilisation_percent or 0) > BUSY_PERCENT or (sample.used_bytes or 0) > BUSY_BYTES
