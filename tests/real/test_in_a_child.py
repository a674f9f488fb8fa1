"""A number that a copy of a process computes, so that nothing of it stays in the memory of the original."""

import errno
import os
from typing import NoReturn

import psutil
import pytest

from bench.worker.on_device.training import in_a_child

pytestmark = pytest.mark.once


def test_a_copy_of_the_process_computes_and_nothing_is_left_of_it() -> None:
    kept, before = [1], psutil.Process().children()

    def add_one() -> int:
        kept.append(2)
        return len(kept)

    assert in_a_child(add_one) == 2
    assert kept == [1], "it was the copy's"
    assert psutil.Process().children() == before


def test_what_goes_wrong_in_the_copy_is_said_here() -> None:
    def fill_the_disk() -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device"):
        in_a_child(fill_the_disk)


def test_a_copy_that_dies_is_noticed() -> None:
    with pytest.raises(OSError, match="ended without a word"):
        in_a_child(lambda: os._exit(1))
