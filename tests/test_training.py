"""What of a rank's training needs no worker group."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.training import Training


@pytest.mark.parametrize(("slowed_by", "least", "most"), [(0.0, 0.02, 0.035), (1.0, 0.04, 0.07)])
def test_a_slowed_step_takes_longer_by_its_share(slowed_by: float, least: float, most: float) -> None:
    torch = pytest.importorskip("torch")
    training = cast(Any, object.__new__(Training))
    training.spec = SimpleNamespace(slowed_by=slowed_by)
    training.device = torch.device("cpu")

    def slow_sum(batches: list[int]) -> int:
        time.sleep(0.02)
        return sum(batches)

    training._step = slow_sum
    durations = []
    for _ in range(5):  # the quickest: this machine may have other things to do
        start = time.perf_counter()
        assert training.step([1, 2]) == 3
        durations.append(time.perf_counter() - start)
    assert least <= min(durations) < most
