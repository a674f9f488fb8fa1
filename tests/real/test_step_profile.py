"""Where a step's time goes, of real groups: every second is counted once, and has the kind it should."""

import dataclasses
import os
from collections import defaultdict
from pathlib import Path

import pytest

from bench.launch.messages import (
    Build,
    FinishProfile,
    ProfileSteps,
    StepsProfiled,
    TakeFirstStep,
    TimeBlock,
)
from bench.measure.comparison import Comparison
from bench.measure.launches import PARITY
from bench.results.operator_kinds import kind_of
from tests.support.configs import a_config

STEPS, ROUNDS = 4, 2

pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores of their own"
)


def profile(folder: Path, backend: str) -> list[StepsProfiled]:
    """The profile of each of two ranks of a tiny model."""
    comparison = Comparison(a_config(folder, timeout_s=300), "m-cpux2")
    starter = comparison.starter
    spec = dataclasses.replace(starter.spec(backend, PARITY), saves_initial_state=True, profiled=True)
    with starter.start_spec(spec, comparison.output.folder / "profile" / backend) as group:
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "backend",
    ["pytorch", *(pytest.param(name, marks=pytest.mark.ort) for name in ("ortmodule", "ortmodule_zero1"))],
)
def test_the_operators_seconds_add_up_and_have_the_kinds_of_a_training_step(
    tmp_path: Path, backend: str
) -> None:
    for answer in profile(tmp_path, backend):
        assert answer.steps == STEPS
        assert sum(operator.seconds for operator in answer.operators) == pytest.approx(answer.seconds)
        assert all(operator.seconds > -1e-4 for operator in answer.operators)
        seconds: dict[str, float] = defaultdict(float)
        for operator in answer.operators:
            seconds[kind_of(operator)] += operator.seconds
        for kind in ("matrix products", "loss", "normalisation", "embedding", "optimizer", "elementwise"):
            assert seconds[kind] > 0, kind
        assert seconds["other"] < 0.05 * answer.seconds
        libraries = {operator.library for operator in answer.operators if "atMul" in operator.name}
        assert libraries == (set() if backend == "pytorch" else {"onnxruntime"})


def test_products_are_counted_as_often_as_the_model_has_them(tmp_path: Path) -> None:
    (first, _) = profile(tmp_path, "pytorch")
    calls = {operator.name: operator.calls for operator in first.operators}
    # Of two layers (four projections of attention, two of the feed-forward) and of the head (two), each once
    # forward; two micro-batches a step. The attention's own products are batched: two in each layer.
    assert calls["aten::addmm"] == (2 * 6 + 2) * 2 * STEPS
    assert calls["aten::bmm"] == 3 * 2 * 2 * 2 * STEPS
