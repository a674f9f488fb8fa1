"""What holds for all tests with real processes."""

from collections.abc import Iterator

import pytest

from bench.launch import group
from tests.support import on_any_machine
from tests.support.fork_server import forked_ranks


@pytest.fixture(scope="module", autouse=True)  # a session would reach the unit tests behind these
def _blocks_count_on_a_busy_machine() -> Iterator[None]:
    """These tests are about function: other processes on the cores do not decide them."""
    with on_any_machine.accepted():
        yield


@pytest.fixture(scope="session")
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    with forked_ranks(tmp_path_factory.mktemp("servers")) as start:
        yield start


@pytest.fixture(scope="module")
def forked(_servers: object) -> Iterator[None]:
    """Ranks of this module's tests are forked from a process that has imported everything."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(group, "LocalRanks", _servers)
        yield
