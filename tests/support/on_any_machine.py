"""Tests of function on a busy machine: blocks count however much of the cores others take.

    python -m tests.support.on_any_machine bench device=cpu …

runs a program of the harness like `python -m`, in a process in which the limit on other processes' share
of the cores is lifted. What they took is still in the rows; only the verdict `invalid` is not passed on it.
What a comparison must do about such blocks is tested without any load, in tests/unit.

    python -m tests.support.on_any_machine --forked FOLDER bench device=cpu …

forks the ranks, too (tests/support/fork_server.py), from processes whose start lies in that folder.
"""

import math
import runpy
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.results import validity
from tests.support.fork_server import forked_ranks


@contextmanager
def accepted() -> Iterator[None]:
    """Let blocks count in this process however busy other processes keep the cores."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(validity, "FOREIGN_SHARE", math.inf)
        yield


if __name__ == "__main__":
    del sys.argv[0]
    with accepted(), ExitStack() as stack:
        if sys.argv[0] == "--forked":
            stack.enter_context(forked_ranks(Path(sys.argv[1])))
            del sys.argv[:2]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
