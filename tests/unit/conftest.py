"""What makes a test one of this folder: it imports no framework and starts no process.

`git` alone may run: it answers in milliseconds, and the harness asks it for the commit of its checkout.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from typing import Any

import matplotlib.font_manager  # noqa: F401  # on a new machine it asks a program for the fonts
import pytest

from tests.support.factories import comparison
from tests.support.fake_nvml import FakeNvml
from tests.support.git import git
from tests.support.result_files import write_records

FRAMEWORKS = frozenset({"torch", "transformers", "datasets", "onnxruntime", "deepspeed"})
STARTS = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"})
"""Python's own names of the events besides `subprocess.Popen`."""

_guarding = False


class NotAUnitTest(Exception):
    """A test in this folder did what only those of tests/real may do."""


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Stop what belongs into tests/real; Python calls this before it happens."""
    if not _guarding:
        return
    if event == "import" and arguments[0] in FRAMEWORKS:
        raise NotAUnitTest(f"a test of tests/unit imports {arguments[0]}; move it to tests/real")
    if event == "subprocess.Popen":
        program = os.fsdecode(arguments[0])
        if Path(program).name != "git" and which(program):  # what is not there starts nothing
            raise NotAUnitTest(f"a test of tests/unit starts {arguments[1]}; move it to tests/real")
    if event in STARTS and not _starts_git():
        raise NotAUnitTest(f"a test of tests/unit starts a process ({event}); move it to tests/real")


def _starts_git() -> bool:
    """Whether `subprocess`, which was let through, is what starts a process now."""
    frame = sys._getframe(2)
    return frame.f_code.co_filename.endswith("subprocess.py")


os.fsync = lambda fd: (
    None
)  # no test cuts the power, and simulated comparisons wait for the disk thousands of times
sys.addaudithook(_refuse)  # for good; what it does not guard it lets through


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Guard the tests of this folder, with their fixtures."""
    global _guarding
    _guarding = item.path.is_relative_to(Path(__file__).parent)
    try:
        return (yield)
    finally:
        _guarding = False


@pytest.fixture(autouse=True)
def _nothing_heavy_was_imported() -> Iterator[None]:
    """`importlib.import_module` is no event, so that its results are looked for."""
    before = FRAMEWORKS & sys.modules.keys()
    yield
    if imported := (FRAMEWORKS & sys.modules.keys()) - before:
        raise NotAUnitTest(f"a test of tests/unit imports {', '.join(imported)}; move it to tests/real")


@pytest.fixture(autouse=True)
def _reports_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.report.build.ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A machine with three GPUs, of which nothing is hidden."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    module = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A results file of two backends, with one launch of two rounds."""
    path = tmp_path / "bert-tiny-cpux2.csv"
    write_records(path, comparison({"pytorch": [[2.0, 2.1]], "ortmodule": [[1.5, 1.6]]}))
    return path


@pytest.fixture
def empty_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder: a git checkout without a commit."""
    monkeypatch.chdir(tmp_path)
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    git("init")
    return tmp_path
