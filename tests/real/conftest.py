"""What holds for all tests with real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import on_any_machine
from tests.support.fork_server import forked_ranks


@pytest.fixture(scope="module", autouse=True)  # a session would reach the unit tests behind these
def _blocks_count_on_a_busy_machine() -> Iterator[None]:
    """These tests are about function: other processes on the cores do not decide them."""
    with on_any_machine.accepted():
        yield


@pytest.fixture(scope="session")
def _folder_of_interpreters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interpreters")


@pytest.fixture(scope="module")
def forked(_folder_of_interpreters: Path) -> Iterator[None]:
    """Ranks are forked from a process that has imported everything, one for all tests of this process."""
    with forked_ranks(_folder_of_interpreters):
        yield
