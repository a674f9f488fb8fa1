"""Room in the heap for a step's tensors, so that a profiled step need not ask the system for memory.

A profiler, torch's and ONNX Runtime's alike, keeps its events in the heap, between large tensors, which then
no longer fit where they were. Memory that is new to the process costs far more than what is computed in it:
with a GPT-2 of two layers, 100 MiB of it add 100 ms to a step of 400 ms, whichever operator needs it. Steps
that are timed without a profiler take next to none.
"""

import contextlib
import resource
from collections.abc import Iterator

import psutil
import torch

FIRST_BYTES = 128 << 20
"""That are asked for before the first step."""

MISSED_BYTES = 2 << 20
"""That a step may take from the system all the same: 1 to 2 ms on a slow machine."""

SHARE_OF_FREE = 32
"""At most a part so small of the memory that is free: several ranks of several backends live side by side."""


class HeapRoom:
    """Takes memory from the system ahead of a step, and more of it as long as steps need more.

    Attributes:
        bytes: that are taken ahead.
        sufficed: in the latest step.
    """

    def __init__(self) -> None:
        self.bytes = FIRST_BYTES
        self.sufficed = True

    def make_room(self) -> None:
        """Take memory, write to it, and leave it to the allocator."""
        with contextlib.suppress(RuntimeError):  # no memory to spare
            torch.empty(self.bytes, dtype=torch.uint8).fill_(1)

    @contextlib.contextmanager
    def growing_if_needed(self) -> Iterator[None]:
        """For a step: if it takes memory from the system, the room is twice as large from then on."""
        before = _bytes_taken()
        yield
        self.sufficed = _bytes_taken() - before <= MISSED_BYTES
        if not self.sufficed:
            most = psutil.virtual_memory().available // SHARE_OF_FREE
            self.bytes = max(self.bytes, min(2 * self.bytes, most))


def _bytes_taken() -> int:
    """What this process has taken from the system so far, by page faults that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt * resource.getpagesize()
