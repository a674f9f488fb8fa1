"""What of a rank's training needs no worker group."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.errors import LaunchFailed
from bench.worker.rank.training import MOST_SKIPPED, Training
from tests.support.python import run_python


@pytest.mark.time
@pytest.mark.parametrize(("slowed_by", "least", "most"), [(0.0, 0.02, 0.035), (1.0, 0.04, 0.07)])
def test_a_slowed_step_takes_longer_by_its_share(slowed_by: float, least: float, most: float) -> None:
    pytest.importorskip("torch")
    training = cast(Any, object.__new__(Training))
    training.spec = SimpleNamespace(slowed_by=slowed_by)
    training._on_cuda = False

    def slow_sum(batches: list[int]) -> int:
        time.sleep(0.02)
        return sum(batches)

    training.sharding = SimpleNamespace(step=slow_sum)
    durations = []
    for _ in range(5):  # the quickest: this machine may have other things to do
        start = time.perf_counter()
        assert training.step([1, 2]) == 3
        durations.append(time.perf_counter() - start)
    assert least <= min(durations) < most


class Overflowing:
    """A sharding whose first `times` steps overflow; a loss tells how many have been taken."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.taken = 0

    def step(self, _: list[int]) -> int:
        self.taken += 1
        return self.taken

    def skipped_steps(self) -> int:
        return min(self.taken, self.times)

    def loss_scale(self) -> float:
        return 2.0 ** (40 - self.skipped_steps())


def a_training(overflows: int) -> Any:
    training = cast(Any, object.__new__(Training))
    training.spec = SimpleNamespace(slowed_by=0.0)
    training.sharding = Overflowing(overflows)
    training._on_cuda = False
    training._skipped_before = 0
    return training


def test_a_skipped_step_is_taken_again_until_it_is_not() -> None:
    training = a_training(overflows=3)
    assert training.step_until_applied([]) == 4
    assert training.step_until_applied([]) == 5
    # Asked twice, as around a block: what was skipped before it is not the block's.
    assert training.loss_scaling() == {"loss_scale": 2.0**37, "skipped_steps": 3}
    assert training.loss_scaling() == {"loss_scale": 2.0**37, "skipped_steps": 0}


def test_a_gradient_that_overflows_at_every_scale_has_diverged() -> None:
    training = a_training(overflows=MOST_SKIPPED + 1)
    with pytest.raises(LaunchFailed, match="overflows in fp16 even with") as caught:
        training.step_until_applied([])
    assert caught.value.status == "diverged"


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_a_gpu_that_would_quietly_compute_in_another_precision_is_refused(precision: str) -> None:
    precisions = pytest.importorskip("bench.worker.workload.precision")
    precisions.check_capability(precision, "A100", (8, 0))
    precisions.check_capability("fp16", "T4", (7, 5))
    with pytest.raises(LaunchFailed, match=f"T4 has no hardware for precision={precision}.*this is 7.5"):
        precisions.check_capability(precision, "T4", (7, 5))


_FIRST_MODEL = """
import bench.worker.rank.training
from bench.machine.telemetry.host_memory import runtime_bytes
from bench.worker.workload import model as models
from tests.support.configs import a_model

before = runtime_bytes()["host_runtime_bytes"]
models.build(a_model(), attention="eager", dropout=False)
print((runtime_bytes()["host_runtime_bytes"] - before) >> 20)
"""


def test_all_libraries_are_imported_before_the_first_model_is_made() -> None:
    """Else what transformers imports with it, 180 MiB, would count as memory of plain PyTorch's training."""
    built = run_python("-c", _FIRST_MODEL, check=True)
    assert int(built.stdout) < 40, "a tiny model takes 4 MiB, and 13 on today's stack"


ENDED_GROUPS = """
import os
import torch
from tests.support.process_group import one_rank
for _ in range(20):
    with one_rank():
        for _ in range(3):
            tensor = torch.ones(4096)
            tensor.known_to_python = True
            torch.distributed.all_reduce(tensor)
            del tensor
os._exit(0)  # as ranks end: Python's own end would tear down a thread that still frees a tensor
"""


def test_a_group_of_tests_ends_though_its_threads_still_free_tensors() -> None:
    pytest.importorskip("torch")
    run_python("-c", ENDED_GROUPS, check=True)
