"""An engine's own profile, by the machine's clock, as torch's is, which sees but the calls of the engine."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from bench.errors import LaunchFailed
from bench.worker.observe.time_spans import Interval

STARTS = attrgetter("start")

TOLERANCE_NS = 10_000
"""By which the clocks of two profiles may differ: about as long as a launch on a device takes."""


@dataclass(frozen=True, kw_only=True)
class EngineKernel:
    """One run of a kernel, or on a device its launch, which a kernel may outlast."""

    name: str  # of the engine's operator
    start: int  # in nanoseconds of the machine's clock, as `end`
    end: int


@dataclass(frozen=True, kw_only=True)
class EngineProfile:
    """What an engine wrote down, in order; empty if torch's profile has its kernels."""

    executions: Sequence[Interval] = ()  # one for each call of the engine
    kernels: Sequence[EngineKernel] = ()  # of all executions, without those that PyTorch ran for the engine

    def kernels_within(self, calls: Iterable[Interval]) -> list[EngineKernel]:
        """The kernels of these calls, which torch's profiler timed.

        Raises:
            LaunchFailed: status `unsupported`, if a call does not hold exactly one execution.
        """
        kernels: list[EngineKernel] = []
        for start, end in calls:
            low, high = (bisect.bisect_left(self.executions, (at,)) for at in (start - TOLERANCE_NS, end))
            held = self.executions[low:high]
            if len(held) != 1 or held[0][1] > end + TOLERANCE_NS:
                raise LaunchFailed(
                    "unsupported",
                    "the engine's own profile does not show one execution within each call that torch's "
                    "profiler saw: their clocks differ, or it was full before the end; set "
                    "measure.explain=false",
                )
            low, high = (bisect.bisect_left(self.kernels, at, key=STARTS) for at in held[0])
            kernels += self.kernels[low:high]
        return kernels


def kernel_at(kernels: Sequence[EngineKernel], at: int) -> EngineKernel | None:
    """Return the one of these kernels, in order, that ran at a moment; None if it was between them."""
    place = bisect.bisect_right(kernels, at, key=STARTS) - 1
    return kernels[place] if place >= 0 and at <= kernels[place].end else None
