"""Studies' tests run in `make test-all`: they do not hold up the core's."""

from pathlib import Path

import pytest

IN_MAKE_TEST = ("test_onnx_runtime_s_operators_add_up_and_have_the_kinds_of_a_training_step[ortmodule]",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them all, but for what the default comparison says of real steps."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.name not in IN_MAKE_TEST:
            item.add_marker(pytest.mark.exhaustive)
