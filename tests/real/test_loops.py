"""Training loops that users have, for real: they train like the bare loop, and prove what ran."""

import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from bench.config.backend import Backend
from bench.config.compose import compose
from bench.config.schema import Config
from bench.errors import LaunchFailed, UserError
from bench.launch.messages import Build, TrainForParity
from bench.measure.comparison import Comparison
from bench.measure.plan.launches import PARITY
from bench.results import csv_files
from bench.setup import stacks
from tests.support.configs import a_config

pytestmark = [
    pytest.mark.usefixtures("forked"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores of their own"),
]

PYTORCH = Backend(engine="eager", optimizer="adamw", sharding="ddp")
LOOPS = {
    "trainer": replace(PYTORCH, loop="trainer"),
    "accelerate": replace(PYTORCH, loop="accelerate"),
    "fp16": replace(PYTORCH, loop="trainer", precision="fp16"),
}


def config(folder: Path) -> Config:
    made = a_config(folder, launches=1, rounds=2, block_seconds=0.1, timeout_s=200)
    made = replace(made, adam=replace(made.adam, lr=1e-3, weight_decay=0.01))
    return replace(made, backends={"pytorch": PYTORCH} | LOOPS)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two micro-batches accumulated in a step, so that gradients must be averaged once."""
    made = config(tmp_path_factory.mktemp("loops"))
    Comparison(made, "m-cpux2").measure()
    return csv_files.read(Path(made.results_dir) / "m-cpux2.csv")


@pytest.mark.parametrize("name", ["trainer", "accelerate"])
def test_a_loop_of_users_trains_like_the_bare_one_and_is_timed(name: str, rows: pd.DataFrame) -> None:
    mine = rows[rows["backend"] == name]
    if name == "trainer" and stacks.own() == "modern":
        # transformers 5.23 neither divides this model's loss by the micro-batches nor leaves out the ranks.
        assert set(mine["status"]) == {"diverged"}
        assert "by 3 of it" in mine["message"].iloc[0], "2 ranks x 2 micro-batches: 4 times the gradient"
        return
    assert set(mine["status"]) <= {"ok", "invalid"}, mine["message"].tolist()
    assert mine["loss_difference"].max() < 1e-6
    assert set(mine["loop"]) == {name}
    assert mine["samples_per_s"].notna().all()


def test_a_scaled_loss_is_unsupported_and_the_others_go_on(rows: pd.DataFrame) -> None:
    (row,) = rows[rows["backend"] == "fp16"].itertuples()
    assert (row.status, "scaled loss of fp16" in str(row.message)) == ("unsupported", True)


@pytest.mark.ort
@pytest.mark.long
def test_ort_trainer_runs_onnx_runtime_on_one_rank(tmp_path: Path) -> None:
    made = config(tmp_path)
    ortmodule = Backend(engine="ortmodule", optimizer="ort_fused_adam", sharding="ddp")
    backends = {
        "pytorch": PYTORCH,
        "ortmodule": ortmodule,
        "ort_trainer": replace(ortmodule, loop="ort_trainer"),
    }
    made = replace(made, backends=backends, device=replace(made.device, world_size=1), grad_accum=1)
    Comparison(made, "m-cpux1").measure()
    rows = csv_files.read(Path(made.results_dir) / "m-cpux1.csv")
    assert set(rows["status"]) <= {"ok", "invalid"}, rows["message"].tolist()
    assert rows[rows["backend"] == "ort_trainer"]["loss_difference"].max() < 1e-5


@pytest.mark.ort
def test_ort_trainer_is_unsupported_on_several_ranks_of_a_cpu(tmp_path: Path) -> None:
    made = config(tmp_path)
    ort_trainer = Backend(engine="ortmodule", optimizer="ort_fused_adam", sharding="ddp", loop="ort_trainer")
    made = replace(made, backends={"pytorch": PYTORCH, "ort_trainer": ort_trainer})
    made = replace(made, measure=replace(made.measure, launches=0))
    Comparison(made, "m-cpux2").measure()
    rows = csv_files.read(Path(made.results_dir) / "m-cpux2.csv").set_index("backend")
    assert rows.loc["ort_trainer", "status"] == "unsupported"
    assert "CUDA device on every rank but the first" in rows.loc["ort_trainer", "message"]


@pytest.mark.parametrize("name", ["trainer", "accelerate"])
def test_the_proof_names_the_loop_and_its_version(name: str, tmp_path: Path) -> None:
    comparison = Comparison(config(tmp_path), "m-cpux2")
    comparison.shared.output.folder.mkdir(parents=True)
    spec = replace(comparison.shared.starter.spec(name, PARITY), saves_initial_state=True)
    with comparison.shared.starter.start_spec(spec, tmp_path / "group") as group:
        group.connect()
        group.request(Build())
        (first, _) = group.request(TrainForParity(steps=2))
        group.end()
    found = first.proof["sharding"]
    assert found["class"].endswith("DistributedDataParallel")
    assert found["loop"].lower().endswith("accelerator" if name == "accelerate" else "keepslosses")
    assert found["version"].split()[0] in ("transformers", "accelerate")


def test_a_loop_trains_by_ddp_alone() -> None:
    with pytest.raises(UserError, match="trains by DDP and cannot be combined with sharding=zero1"):
        compose(["device=cpu", "backend=[pytorch_trainer]", "backends.pytorch_trainer.sharding=zero1"])
    with pytest.raises(UserError, match="loop=lightning is not known; choose one of: bare, accelerate"):
        compose(["device=cpu", "backend=[pytorch_trainer]", "backends.pytorch_trainer.loop=lightning"])


def test_what_a_trainer_raises_reaches_the_rank(tmp_path: Path) -> None:
    """Its thread must not leave whoever waits for a step waiting."""
    made = config(tmp_path)
    comparison = Comparison(made, "m-cpux2")
    comparison.shared.output.folder.mkdir(parents=True)
    spec = replace(comparison.shared.starter.spec("trainer", PARITY), saves_initial_state=True, seq_len=4096)
    with comparison.shared.starter.start_spec(spec, tmp_path / "group") as group:
        group.connect()
        group.request(Build())
        with pytest.raises(LaunchFailed, match="size"):  # more positions than the model has
            group.request(TrainForParity(steps=1))
