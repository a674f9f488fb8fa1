"""Memory that a profiled step needs is there before it, as long as the machine has some to spare."""

from types import SimpleNamespace

import psutil
import pytest
import torch

from bench.studies.explain.step_profile import FIRST_BYTES, SHARE_OF_FREE, HeapRoom

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
