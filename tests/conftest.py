"""What holds for all tests: several run at a time, but for those that measure."""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import stacks
from bench.telemetry.gpus import visible_gpus

# A shell starts its background jobs with SIGINT ignored, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One for each core that we may use, and no more than tests can keep busy."""
    return min(8, len(os.sched_getaffinity(0)))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of pytest-timeout's clock
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that is marked `alone` waits for all others to end and keeps new ones from starting."""
    place = item.config.cache.mkdir("turns")  # of this checkout, whoever runs its tests
    with turn(place, alone=item.get_closest_marker("alone") is not None):
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """To have asked for the GPU's tests and to see all of them skipped would look like success."""
    if config.option.markexpr == "gpu" and not visible_gpus():
        pytest.exit("no NVIDIA GPU is visible here; run `make test-gpu` where nvidia-smi lists one", 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs ONNX Runtime is skipped on the stack without it."""
    if stacks.own() == "ort":
        return
    for item in items:
        if item.get_closest_marker("ort"):
            item.add_marker(pytest.mark.skip(reason="the modern stack has no ONNX Runtime Training"))


@contextmanager
def turn(place: Path, *, alone: bool) -> Iterator[None]:
    """Hold the lock, shared or alone; nobody overtakes one who waits to be alone."""
    with (place / "queue").open("a") as queue, (place / "lock").open("a") as lock:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield
