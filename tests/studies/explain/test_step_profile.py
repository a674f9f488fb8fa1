"""Where a step's time goes, of real groups: every second is counted once, and has the kind it should."""

import dataclasses
import gc
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.errors import LaunchFailed
from bench.launch.messages import Build, TakeFirstStep, TimeBlock
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.telemetry.rank_meter import RankMeter
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import PARITY
from bench.studies.explain.messages import FinishProfile, ProfileSteps, StepsProfiled
from bench.studies.explain.operator_kinds import kind_of
from bench.studies.explain.step_profile import StepProfiler
from tests.support.configs import a_config
from tests.support.cores import two_cores

STEPS, ROUNDS = 4, 2

METER = RankMeter(GpuMeter(None))

pytestmark = [pytest.mark.usefixtures("forked"), two_cores]


@pytest.fixture(scope="module")
def pytorch_profile(tmp_path_factory: pytest.TempPathFactory) -> list[StepsProfiled]:
    return profile(tmp_path_factory.mktemp("profile"), "pytorch")


def profile(folder: Path, backend: str) -> list[StepsProfiled]:
    """The profile of each of two ranks of a tiny model."""
    comparison = Comparison(a_config(folder), "m-cpux2")
    starter = comparison.shared.starter
    spec = dataclasses.replace(starter.spec(backend, PARITY), saves_initial_state=True, profiled_groups=1)
    with starter.start_spec(spec, comparison.shared.output.folder / "profile" / backend) as group:
        group.connect()
        group.request(Build())
        group.request(TakeFirstStep())
        group.request(TimeBlock(steps=2))
        group.request(ProfileSteps(steps=1, counted=False))
        for _ in range(ROUNDS):
            group.pause()
            group.request(ProfileSteps(steps=STEPS // ROUNDS, counted=True))
        answers = group.request(FinishProfile())
        group.end()
    return answers


def test_pytorch_s_operators_add_up_and_have_the_kinds_of_a_training_step(
    pytorch_profile: list[StepsProfiled],
) -> None:
    assert libraries_of_products(pytorch_profile) == set()


@pytest.mark.ort
@pytest.mark.parametrize("backend", ["ortmodule", "ortmodule_zero1"])
def test_onnx_runtime_s_operators_add_up_and_have_the_kinds_of_a_training_step(
    tmp_path: Path, backend: str
) -> None:
    assert libraries_of_products(profile(tmp_path, backend)) == {"onnxruntime"}


def libraries_of_products(answers: list[StepsProfiled]) -> set[str]:
    """Check that the seconds are complete and of every kind; which library's products are named."""
    libraries: set[str] = set()
    unknown = []
    for each in (each for answer in answers for each in answer.rounds):
        assert each.steps == STEPS // ROUNDS
        assert sum(operator.seconds for operator in each.operators) == pytest.approx(each.seconds)
        assert all(operator.seconds > -1e-4 for operator in each.operators)
        seconds: dict[str, float] = defaultdict(float)
        for operator in each.operators:
            seconds[kind_of(operator)] += operator.seconds
        for kind in ("matrix products", "loss", "normalisation", "embedding", "optimizer", "elementwise"):
            assert seconds[kind] > 0, kind
        unknown.append(seconds["other"] / each.seconds)
        libraries |= {operator.library for operator in each.operators if "atMul" in operator.name}
    assert min(unknown) < 0.05, "on a busy machine any operator may be held up, but not in every round"
    assert [len(answer.rounds) for answer in answers] == [ROUNDS] * len(answers)
    return libraries


def test_products_are_counted_as_often_as_the_model_has_them(pytorch_profile: list[StepsProfiled]) -> None:
    (first, _) = pytorch_profile
    calls = {operator.name: operator.calls for operator in first.rounds[0].operators}
    # Of two layers (four projections of attention, two of the feed-forward) and of the head (two), each once
    # forward; two micro-batches a step. The attention's own products are batched: two in each layer.
    assert calls["aten::addmm"] == (2 * 6 + 2) * 2 * STEPS // ROUNDS
    assert calls["aten::bmm"] == 3 * 2 * 2 * 2 * STEPS // ROUNDS


def test_a_profile_s_events_are_gone_before_the_next_step() -> None:
    left: list[int] = []

    def step(batch: torch.Tensor) -> torch.Tensor:
        left.append(sum(isinstance(one, torch.profiler.profile) for one in gc.get_objects()))
        return batch @ batch

    training: Any = SimpleNamespace(
        step=step,
        steps=lambda count: [torch.ones(4, 4)] * count,
        device=torch.device("cpu"),
        synchronize=lambda: None,
        barrier=lambda: None,
    )
    StepProfiler(training, METER, processes=1).profile(3, counted=True)
    without, profiled = left[::2], left[1::2]
    assert (without, profiled) == ([0] * 3, [1] * 3)


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_gpu_that_the_profiler_does_not_see_is_refused() -> None:
    training: Any = SimpleNamespace(
        step=lambda batch: batch @ batch,  # on the CPU: as if the GPU's events were kept from the profiler
        steps=lambda count: [torch.ones(4, 4)] * count,
        device=torch.device("cuda"),
        synchronize=lambda: None,
        barrier=lambda: None,
        engine=SimpleNamespace(),
    )
    profiler = StepProfiler(training, METER, processes=1)
    with pytest.raises(LaunchFailed, match="saw nothing of what the GPU did"):
        profiler.profile(1, counted=True)
