"""Tests of function on a busy machine: blocks count however much of the cores others take, and at once.

    python -m tests.support.on_any_machine bench device=cpu …

runs a program of the harness like `python -m`, in a process in which the limit on other processes' share
of the cores is lifted, and nothing waits for them to leave. What they took is still in the rows; only the
verdict `invalid` is not passed on it. What a comparison must do about such blocks is tested without any load,
in tests/unit. Ranks share memory as forks do (`light_parent`), but with `--own-pages` before `bench`.

    python -m tests.support.on_any_machine --forked bench device=cpu …

lets all launches fork their ranks from the same processes, too (`forked_ranks`).
"""

import math
import runpy
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from bench.launch import agents
from bench.measure.groups.busy_cores import QuietCores
from bench.results import validity
from tests.support import light_parent, pretended_gpu


@contextmanager
def accepted(*, parent: str = light_parent.NAME) -> Iterator[None]:
    """Let blocks count in this process however busy other processes keep the cores; `parent` forks ranks."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(agents, "PARENT", parent)
        patched.setattr(validity, "FOREIGN_SHARE", math.inf)
        patched.setattr(QuietCores, "wait", lambda *_: None)
        yield


_kept: dict[object, agents._Parent] = {}
"""Those of the last `forked_ranks`, for the next: in between, parents begin and end with their launch."""


@contextmanager
def forked_ranks() -> Iterator[None]:
    """In this process all groups share the processes that have imported everything: it saves the imports.

    How these begin and end with a launch is shown by tests/real/test_parents.py.
    """
    no_import_reads = (
        "PYTEST_CURRENT_TEST",
        *(pretended_gpu.FOLDER, pretended_gpu.MEMORY, pretended_gpu.FAULTS, "CUDA_HOME"),
    )
    with pytest.MonkeyPatch.context() as patched, agents.keep_parents():
        patched.setattr(agents, "OF_ONE_GROUP", (*agents.OF_ONE_GROUP, *no_import_reads))
        agents._parents.update(_kept)
        _kept.clear()
        yield
        _kept.update((key, parent) for key, parent in agents._parents.items() if not parent.agents)
        for key in _kept:
            del agents._parents[key]


if __name__ == "__main__":
    del sys.argv[0]
    own_pages = sys.argv[0] == "--own-pages"
    del sys.argv[:own_pages]
    with accepted(parent=agents.PARENT if own_pages else light_parent.NAME), ExitStack() as stack:
        if sys.argv[0] == "--forked":
            stack.enter_context(forked_ranks())
            del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
