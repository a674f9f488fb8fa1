"""Room in the heap for a step's tensors, so that a profiled step need not ask the system for memory.

A profiler, torch's and ONNX Runtime's alike, keeps its events in the heap, between large tensors, which then
no longer fit where they were. Memory that is new to the process costs far more than what is computed in it:
with a GPT-2 of two layers, 100 MiB of it add 100 ms to a step of 400 ms, whichever operator needs it. Steps
that are timed without a profiler take next to none.
"""

import contextlib
from collections.abc import Iterator

import psutil
import torch

from bench.machine.telemetry.host_memory import host_bytes

FIRST_BYTES = 128 << 20
"""What is taken ahead of the first step; a GPT-2 of two layers needs four times as much."""

MISSED_BYTES = 4 << 20
"""What a step may still take from the system: 4 ms on a slow machine."""

SHARE_OF_FREE = 0.5
"""All processes together take at most this share of what is free at first: where small things come to lie at
its end, a heap grows by the whole room at every step."""


class HeapRoom:
    """Takes memory from the system ahead of a step, and more of it as long as steps need more.

    So many `processes` do so on this machine.
    """

    def __init__(self, processes: int) -> None:
        self._left = int(psutil.virtual_memory().available * SHARE_OF_FREE / processes)
        self.bytes = min(FIRST_BYTES, self._left)
        self.sufficed = True  # in the latest step

    def make_room(self) -> None:
        """Take memory, write to it, and leave it to the allocator, unless that would be too much in all."""
        if self.bytes > self._left:
            return
        before = _bytes_taken()
        with contextlib.suppress(RuntimeError):  # no memory to spare
            torch.empty(self.bytes, dtype=torch.uint8).fill_(1)
        self._left -= _bytes_taken() - before

    @contextlib.contextmanager
    def growing_if_needed(self) -> Iterator[None]:
        """For a step: if it takes memory from the system, the room is twice as large from then on."""
        before = _bytes_taken()
        yield
        self.sufficed = _bytes_taken() - before <= MISSED_BYTES
        if not self.sufficed and 2 * self.bytes <= self._left:
            self.bytes *= 2


def _bytes_taken() -> int:
    """What this process holds in memory, of which the tuned allocator gives nothing back to the system.

    Page faults do not tell: with transparent huge pages a single one takes 2 MiB.
    """
    return host_bytes() or 0
