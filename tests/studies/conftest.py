"""Studies' tests run in `make test-all`: none of them holds up the core's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import on_any_machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them all."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(scope="module")
def forked() -> Iterator[None]:
    """Ranks of all groups are forked from the same processes, as in tests/real."""
    with on_any_machine.forked_ranks():
        yield
