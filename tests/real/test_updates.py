"""Which wrong updates the parity launch sees: none of them shows in losses, norms or the first gradients."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.errors import LaunchFailed
from bench.launch.group import Group
from bench.launch.messages import BUFFER, GRADIENT
from bench.launch.spec import WorkerSpec
from bench.measure.plan.plans import Tolerances
from bench.measure.stages.judging import Trajectory, check_parity, check_tensors, judge_tensors
from bench.setup.checkout import ROOT
from tests.support.comparisons import Outcome
from tests.support.configs import a_config
from tests.support.cores import two_cores
from tests.support.planted_faults import FAULTS, RANKS, Found, Trained

# How a fault is seen is ours; that each sharding trains right is shown on both stacks by test_choices.py.
pytestmark = [pytest.mark.once, two_cores]

FAULTY = ("ddp", "zero1")
SHARDINGS = sorted({fault.sharding for fault in FAULTS.values()})


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("faults")
    command = [sys.executable, "-m", "tests.support.planted_faults", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_WARM_POOL": "0", "PYTHONPATH": str(ROOT)}
    ranks = [subprocess.Popen([*command, str(rank)], cwd=ROOT, env=environment) for rank in range(RANKS)]
    assert [rank.wait() for rank in ranks] == [0] * RANKS
    return msgspec.json.decode((folder / "found.json").read_bytes(), type=Found)


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_right_updates_pass(sharding: str, found: Found) -> None:
    worst = judge_tensors(found.right[sharding].differences, found.expected, "fp32")[0]
    print(f"{sharding}: {worst}")
    assert worst.share() < 0.3, "of what is allowed"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_update_has_diverged_and_its_tensor_is_named(fault: str, found: Found) -> None:
    ours = found.wrong[fault].differences
    with pytest.raises(LaunchFailed, match=f"^the {FAULTS[fault].tensor}") as caught:
        check_tensors(judge_tensors(ours, found.expected, "fp32"), "fp32")
    assert caught.value.status == "diverged"
    print(caught.value.message)


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_else_shows_it(fault: str, found: Found) -> None:
    """Or the other tests would prove nothing about the last step."""
    ours = found.wrong[fault]
    tolerances = Tolerances(loss=1e-4, gradient_norm=0.01)
    check_parity(trajectory(ours), trajectory(found.right["ddp"]), tolerances)
    of_first = {
        name: error for name, error in ours.differences.items() if re.match(f"{GRADIENT}|{BUFFER}", name)
    }
    check_tensors(judge_tensors(of_first, found.expected, "fp32"), "fp32")


_INSTEAD = """
import importlib.util, sys

class Instead:
    def find_spec(name, path=None, target=None):
        if name == "bench.worker.optimizers.adamw":
            return importlib.util.spec_from_file_location(name, {path!r})

sys.meta_path.insert(0, Instead)
"""

_LOSES = """
import torch

class Loses(torch.optim.AdamW):
    def step(self, closure=None):
        weight = self.param_groups[0]["params"][-1]  # in ZeRO the only one, which is flat
        before = weight[:32].detach().clone()
        super().step(closure)
        with torch.no_grad():
            weight[:32] = before

build = Loses
"""


@pytest.mark.exhaustive
@pytest.mark.usefixtures("forked")
def test_a_backend_that_loses_an_update_leaves_a_row_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_INSTEAD.format(path=str(tmp_path / "adamw.py")))
    (tmp_path / "adamw.py").write_text(_LOSES)

    class Faulty(Group):
        def __init__(self, spec: WorkerSpec, *, variables: dict[str, str], **settings: Any) -> None:
            if spec.backend in FAULTY:
                variables = {**variables, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
            super().__init__(spec, variables=variables, **settings)

    config = a_config(tmp_path, launches=0)
    pytorch = config.backends["pytorch"]
    config.backends = {"pytorch": pytorch, **{name: replace(pytorch, sharding=name) for name in FAULTY}}
    outcome = Outcome(config, Faulty)
    rows = {name: (status, message) for name, _, status, message in outcome.failed()}
    assert rows.pop("pytorch") == ("untimed", "")
    words = r"the weight update \S+ in fp32 differs from plain PyTorch's in fp32 by 0\.\d+ of it"
    for name in FAULTY:
        status, message = rows[name]
        assert status == "diverged"
        assert re.match(words, message), message


def trajectory(trained: Trained) -> Trajectory:
    return Trajectory(losses=trained.losses, gradient_norms=trained.gradient_norms)
