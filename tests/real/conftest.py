"""What holds for all tests with real processes."""

from collections.abc import Iterator

import pytest

from bench.launch import agents
from tests.support import on_any_machine

HARNESS_PARENT = agents.PARENT


@pytest.fixture(scope="module", autouse=True)  # a session would reach the unit tests behind these
def _blocks_count_on_a_busy_machine() -> Iterator[None]:
    """These tests are about function: other processes on the cores do not decide them."""
    with on_any_machine.accepted():
        yield


@pytest.fixture
def real_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks have parents of the harness, and so pages of their own."""
    monkeypatch.setattr(agents, "PARENT", HARNESS_PARENT)
