"""Memory that a profiled step needs is there before it, as long as the machine has some to spare."""

from types import SimpleNamespace

import psutil
import pytest
import torch

from bench.worker.heap_room import FIRST_BYTES, HeapRoom


def take(mebibytes: int) -> torch.Tensor:
    """Memory that is new to this process: it is kept."""
    return torch.empty(mebibytes << 20, dtype=torch.uint8).fill_(1)


def test_a_step_that_takes_new_memory_doubles_the_room() -> None:
    heap, kept = HeapRoom(), []
    heap.make_room()
    with heap.growing_if_needed():
        pass
    assert (heap.bytes, heap.sufficed) == (FIRST_BYTES, True)
    with heap.growing_if_needed():
        kept.append(take(512))
    assert (heap.bytes, heap.sufficed) == (2 * FIRST_BYTES, False)
    heap.make_room()


def test_the_room_is_a_small_part_of_what_the_machine_has_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 30))
    heap, kept = HeapRoom(), []
    with heap.growing_if_needed():
        kept.append(take(512))
    assert heap.bytes == FIRST_BYTES, "not less either"
