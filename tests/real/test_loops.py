"""Training loops that users have, for real: they train like the bare loop, and prove what ran."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.config.backend import Backend
from bench.config.compose import compose
from bench.config.schema import Config
from bench.errors import LaunchFailed, UserError
from bench.launch.messages import Build, TrainForParity
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import PARITY
from bench.results import csv_files
from bench.setup import stacks
from tests.support.configs import a_config
from tests.support.cores import two_cores

pytestmark = [pytest.mark.usefixtures("forked"), two_cores]

PYTORCH = Backend(engine="eager", optimizer="adamw", sharding="ddp")
LOOPS = {
    "trainer": replace(PYTORCH, loop="trainer"),
    "accelerate": replace(PYTORCH, loop="accelerate"),
    "fp16": replace(PYTORCH, loop="trainer", precision="fp16"),
}
ZERO = {
    "pytorch": PYTORCH,
    "zero1": replace(PYTORCH, sharding="zero1", loop="trainer"),
    "zero3": replace(PYTORCH, sharding="zero3", loop="trainer"),
}
ORT_TRAINER = Backend(engine="ortmodule", optimizer="ort_fused_adam", sharding="ddp", loop="ort_trainer")


def config(folder: Path) -> Config:
    made = a_config(folder, launches=1, rounds=2, block_seconds=0.1)
    made = replace(made, adam=replace(made.adam, lr=1e-3, weight_decay=0.01))
    return replace(made, backends={"pytorch": PYTORCH} | LOOPS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of two micro-batches accumulated in a step, so that gradients must be averaged once."""
    made = config(tmp_path_factory.mktemp("loops"))
    Comparison(made, "m-cpux2").measure()
    return Path(made.results_dir)


@pytest.fixture(scope="module")
def rows(folder: Path) -> pd.DataFrame:
    return csv_files.read(folder / "m-cpux2.csv")


def sharding_proof(results: Path, name: str) -> dict[str, Any]:
    """What this backend's ranks said of their sharding."""
    paths = sorted(results.glob(f"runs/*/*/*/{name}/record.json"))
    (*_, proof) = [one for path in paths if (one := json.loads(path.read_text())["proof"])]
    found: dict[str, Any] = proof["sharding"]
    return found


@pytest.mark.parametrize("name", ["trainer", "accelerate"])
def test_a_loop_of_users_trains_like_the_bare_one_is_timed_and_proves_itself(
    name: str, folder: Path, rows: pd.DataFrame
) -> None:
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
    found = sharding_proof(folder, name)
    assert found["class"].endswith("DistributedDataParallel")
    assert found["loop"].lower().endswith("accelerator" if name == "accelerate" else "keepslosses")
    assert found["version"].split()[0] in ("transformers", "accelerate")


def test_a_scaled_loss_is_unsupported_and_the_others_go_on(rows: pd.DataFrame) -> None:
    (row,) = rows[rows["backend"] == "fp16"].itertuples()
    assert (row.status, "scaled loss of fp16" in str(row.message)) == ("unsupported", True)


@pytest.mark.ort
@pytest.mark.exhaustive
def test_ort_trainer_runs_onnx_runtime_on_one_rank(tmp_path: Path) -> None:
    made = config(tmp_path)
    backends = {"pytorch": PYTORCH, "ort_trainer": ORT_TRAINER}
    made = replace(made, backends=backends, device=replace(made.device, world_size=1), grad_accum=1)
    Comparison(made, "m-cpux1").measure()
    rows = csv_files.read(Path(made.results_dir) / "m-cpux1.csv")
    assert set(rows["status"]) <= {"ok", "invalid"}, rows["message"].tolist()
    assert rows[rows["backend"] == "ort_trainer"]["loss_difference"].max() < 1e-5


def compare_untimed(folder: Path, backends: dict[str, Backend], grad_accum: int) -> pd.DataFrame:
    """The rows of a comparison of two ranks in which nothing is timed, by backend."""
    made = replace(config(folder), backends=backends, grad_accum=grad_accum)
    made = replace(made, measure=replace(made.measure, launches=0))
    Comparison(made, "m-cpux2").measure()
    return csv_files.read(Path(made.results_dir) / "m-cpux2.csv").set_index("backend")


@pytest.mark.ort
def test_ort_trainer_trains_on_several_ranks_of_a_cpu_with_and_without_zero(tmp_path: Path) -> None:
    zero = replace(ORT_TRAINER, sharding="zero2")
    rows = compare_untimed(tmp_path, {"pytorch": PYTORCH, "ddp": ORT_TRAINER, "zero2": zero}, grad_accum=2)
    assert set(rows["status"]) == {"untimed"}, rows["message"].tolist()
    assert rows["loss_difference"].max() < 1e-5


def test_trainer_trains_under_deepspeed_as_its_arguments_ask_for_it(tmp_path: Path) -> None:
    """What is wrong with accumulation in transformers 5.23 is so with every sharding."""
    rows = compare_untimed(tmp_path, ZERO, grad_accum=2 if stacks.own() == "ort" else 1)
    assert set(rows["status"]) == {"untimed"}, rows["message"].tolist()
    assert rows["loss_difference"].max() < 1e-6
    assert list(rows["loop"]) == ["bare", "trainer", "trainer"]
    for name in ("zero1", "zero3"):
        found = sharding_proof(tmp_path / "results", name)
        assert found["class"] == "deepspeed.runtime.engine.DeepSpeedEngine"
        assert found["loop"] == "bench.worker.loops.trainer.KeepsLosses"
        assert found["stage"] == int(name[-1])


@pytest.mark.parametrize(
    ("name", "choice", "words"),
    [
        ("pytorch_accelerate", "sharding=zero1", "combined with sharding=zero1; choose ddp, or loop=bare"),
        ("pytorch_trainer", "sharding=fsdp2", "combined with sharding=fsdp2; choose ddp or zero1 or zero2"),
        ("pytorch_trainer", "sharding=zero1_native", "with sharding=zero1_native; choose ddp or zero1 or"),
        ("pytorch_trainer", "loop=lightning", "loop=lightning is not known; choose one of: bare, accelerate"),
    ],
)
def test_a_loop_that_is_not_there_or_without_a_sharding_is_refused_with_those_that_are(
    name: str, choice: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        compose(["device=cpu", f"backend=[{name}]", f"backends.{name}.{choice}", "precision=bf16"])


@pytest.mark.exhaustive
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
