"""What holds for all tests."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest

from bench.machine.gpus import visible_gpus
from bench.setup import stacks
from tests.support import fast_config, on_any_machine

FIRST = (
    "test_deletion.py",  # of `make test-all`, as those of studies below
    "test_gpu.py",
    "test_precision.py",
    "test_interruptions.py",
    "test_scale_real.py",
    "test_nodes.py",
    "test_failures.py",
    "test_end_to_end.py",
    "test_datasets_end_to_end.py",
    "test_choices.py",
    "test_methods.py",
    "test_parents.py",
    "test_loops.py",
    "test_user_module.py",
    "test_converge.py",
    "test_updates.py",
    "test_contributing.py",
    "test_for_real.py",
    "test_overhead.py",
    "test_agents.py",
)
"""Files are handed out whole (`--dist loadfile`): the longest first, or one core would idle at the end."""

SKIPPED_ON_MODERN = {
    "ort": "the modern stack has no ONNX Runtime Training",
    "once": "says nothing about the stack; runs on the pinned one",
}
"""Marks, and why their tests are skipped there."""

fast_config.parse_once()

# The imports of all tests make a million objects that stay: searching them for garbage is in vain.
gc.disable()

# Else whatever here imports DeepSpeed starts a process that imports torch, and waits for kernels to compile.
os.environ["TORCH_WARM_POOL"] = "0"

# A shell starts its background jobs with SIGINT ignored, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One for each core that we may use, and no more than tests can keep busy."""
    return min(8, len(os.sched_getaffinity(0)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-gpu` asks for this machine's GPUs; else the same tests run on pretended ones."""
    parser.addoption("--real-gpu", action="store_true", help="run the GPUs' tests on this machine's own")


def pytest_configure(config: pytest.Config) -> None:
    """To have asked for GPUs and to see others pretended would look like success."""
    if config.getoption("--real-gpu") and not visible_gpus():
        pytest.exit("no NVIDIA GPU is visible here; run `make test-gpu` where nvidia-smi lists one", 1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files come first; some tests are for the pinned stack, or GPUs."""
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
    if not config.getoption("--real-gpu"):
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="a pretended GPU cannot show it: make test-gpu"))
    if stacks.own() == "ort":
        return
    # A real GPU may be on a machine with that stack alone.
    skipped = [mark for mark in SKIPPED_ON_MODERN if mark != "once" or not config.getoption("--real-gpu")]
    for item in items:
        for mark in skipped:
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=SKIPPED_ON_MODERN[mark]))


def pytest_collection_finish() -> None:
    """Everything is imported; what tests make is collected, and more seldom than by default."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.fixture(scope="module")
def forked() -> Iterator[None]:
    """Ranks of all groups are forked from the same processes, which have imported everything."""
    with on_any_machine.forked_ranks():
        yield


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine as small as simulated comparisons take it to be."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
