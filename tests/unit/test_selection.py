"""Which tests run on which stack, beside which GPU."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.setup import stacks
from tests import conftest


class Item:
    """A test with one mark."""

    path = Path("test_gpu.py")

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.is_skipped = False

    def get_closest_marker(self, name: str) -> bool:
        return name == self.mark

    def add_marker(self, _: object) -> None:
        self.is_skipped = True


@pytest.mark.parametrize(
    ("stack", "is_real", "skipped"),
    [
        ("ort", False, {"gpu"}),
        ("ort", True, set()),
        ("modern", False, {"gpu", "ort", "once"}),
        ("modern", True, {"ort"}),  # that GPU's machine may have no other stack
    ],
)
def test_what_says_nothing_about_the_stack_runs_on_one_and_on_a_real_gpu(
    stack: str, is_real: bool, skipped: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "own", lambda: stack)
    config: Any = SimpleNamespace(getoption=lambda _: is_real)
    items: list[Any] = [Item(mark) for mark in ("gpu", "ort", "once", "exhaustive")]
    conftest.pytest_collection_modifyitems(config, items)
    assert {item.mark for item in items if item.is_skipped} == skipped
