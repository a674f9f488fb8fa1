"""The GPUs of a worker group, looked at by the coordinator while it waits for the group."""

import time
from collections.abc import Callable, Sequence

from bench.records import Sample
from bench.telemetry.device import Device

PERIOD_SECONDS = 0.5

LARGEST_SHARE = 0.005
"""Of a core, for looking; where NVML is slow or the GPUs are many, the sampler looks less often."""


class Sampler:
    """Samples of every device since `take`; no thread, so that nothing runs but when it is asked to.

    Args:
        devices: the group's, by local rank; none on a CPU.
        clock: seconds.
        cpu_clock: CPU seconds of the calling thread.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.devices = devices
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._due = clock()
        self._samples: list[tuple[Sample, ...]] = []

    def look(self) -> tuple[Sample, ...]:
        """Every device at this moment: before a group starts, that is what others do there."""
        return tuple(device.sample() for device in self.devices)

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

    def take(self) -> tuple[tuple[Sample, ...], ...]:
        """For every device its samples since the last `take`."""
        taken, self._samples = self._samples, []
        return tuple(zip(*taken, strict=True)) if taken else ()
