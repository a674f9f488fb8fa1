"""Memory that a profiled step needs is there before it, as long as the machine has some to spare."""

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
import torch

from bench.machine.variables import TUNED_MALLOC
from bench.worker.observe.step_profile import FIRST_BYTES, SHARE_OF_FREE, HeapRoom
from tests.support.pages import ROOT

MEBIBYTE = 1 << 20


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the machine seems to have free: just enough for a room of 128 MiB."""
    memory = SimpleNamespace(available=int(128 * MEBIBYTE / SHARE_OF_FREE))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    return memory


def take(mebibytes: int) -> torch.Tensor:
    """Memory that is new to this process: it is kept."""
    return torch.empty(mebibytes * MEBIBYTE, dtype=torch.uint8).fill_(1)


def test_a_step_that_takes_new_memory_doubles_the_room(free: SimpleNamespace) -> None:
    free.available *= 4
    heap, kept = HeapRoom(processes=1), []
    heap.make_room()
    with heap.growing_if_needed():
        pass
    assert (heap.bytes, heap.sufficed) == (FIRST_BYTES, True)
    with heap.growing_if_needed():
        kept.append(take(512))
    assert (heap.bytes, heap.sufficed) == (2 * FIRST_BYTES, False)


def test_no_more_is_taken_than_the_machine_can_spare(free: SimpleNamespace) -> None:
    heap, kept = HeapRoom(processes=1), []
    with heap.growing_if_needed():
        kept.append(take(512))
    assert heap.bytes == FIRST_BYTES, "twice as much would be too much"
    free.available = int(8 * MEBIBYTE / SHARE_OF_FREE)
    assert HeapRoom(processes=8).bytes == MEBIBYTE


UNDER_THE_WORKERS_ALLOCATOR = """
from types import SimpleNamespace
import psutil, torch
from bench.worker.observe.step_profile import FIRST_BYTES, SHARE_OF_FREE, HeapRoom

psutil.virtual_memory = lambda: SimpleNamespace(available=FIRST_BYTES / SHARE_OF_FREE)
heap, kept, held = HeapRoom(processes=1), [], []
for _ in range(3):
    held.append(psutil.Process().memory_info().rss)
    heap.make_room()
with heap.growing_if_needed():
    kept.append(torch.empty(FIRST_BYTES // 2, dtype=torch.uint8).fill_(1))
print(held[1] - held[0], held[2] - held[1], heap.sufficed)
with heap.growing_if_needed():
    kept.append(torch.empty(2 * FIRST_BYTES, dtype=torch.uint8).fill_(1))
print(heap.sufficed)
"""


@pytest.mark.exhaustive
def test_the_room_serves_a_step_and_new_memory_is_seen_in_huge_pages_too() -> None:
    """A huge page is a single page fault, so that faults would hide the memory."""
    done = subprocess.run(
        [sys.executable, "-c", UNDER_THE_WORKERS_ALLOCATOR],
        env={**os.environ, **TUNED_MALLOC},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    first, second, sufficed, suffices_again = done.stdout.split()
    assert int(first) > 0.9 * FIRST_BYTES
    assert int(second) < MEBIBYTE, "that was all that the machine could spare"
    assert (sufficed, suffices_again) == ("True", "False")
