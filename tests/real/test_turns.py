"""Tests that must be alone on the machine wait for the others, and for nothing else."""

import fcntl
import multiprocessing
import time
from pathlib import Path

from tests.conftest import turn


def test_a_process_that_a_test_leaves_behind_does_not_keep_its_turn(tmp_path: Path) -> None:
    left = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    with turn(tmp_path, alone=False):
        left.start()
    try:
        with (tmp_path / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        left.kill()
        left.join()
