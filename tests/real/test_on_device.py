"""Training as on a device, for real: without torch, on the same weights and batches, under the same gates."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.config.backend import Backend
from bench.config.compose import compose
from bench.config.schema import Config
from bench.launch.messages import (
    BUFFER,
    GRADIENT,
    LAST_GRADIENT,
    MOVEMENT,
    Build,
    ExpectedTensor,
    ParityTrained,
    TrainForParity,
    UseBatches,
    WriteExpectedTensors,
)
from bench.measure.comparison import Comparison
from bench.measure.plan.plans import PARITY
from bench.measure.stages.judging import judge_tensors
from bench.results import csv_files
from tests.support.configs import a_config

pytestmark = [pytest.mark.usefixtures("forked"), pytest.mark.ort]

PYTORCH = Backend(engine="eager", optimizer="adamw", sharding="ddp")
ON_DEVICE = Backend(engine="on_device", optimizer="adamw", sharding="ddp")


def config(folder: Path, *, trained: str = "all", **changed: Any) -> Config:
    made = a_config(folder, launches=1, rounds=2, block_seconds=0.1)
    made = replace(
        made,
        model=replace(made.model, trained=trained),
        device=replace(made.device, world_size=1),
        adam=replace(made.adam, lr=1e-3, weight_decay=0.01),
        backends={"pytorch": PYTORCH, "on_device": ON_DEVICE},
    )
    return replace(made, **changed)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Two micro-batches accumulated in a step, so that gradients must be averaged."""
    made = config(tmp_path_factory.mktemp("on_device"), grad_accum=2)
    Comparison(made, "m-cpux1").measure()
    return csv_files.read(Path(made.results_dir) / "m-cpux1.csv")


def test_it_trains_like_pytorch_and_is_timed(rows: pd.DataFrame) -> None:
    mine = rows[rows["backend"] == "on_device"]
    assert set(mine["status"]) <= {"ok", "invalid"}, mine["message"].tolist()
    assert mine["loss_difference"].max() < 1e-4
    assert mine["samples_per_s"].notna().all()


def test_its_memory_and_its_room_on_disk_stand_beside_pytorch_s(rows: pd.DataFrame) -> None:
    mine, theirs = (rows[rows["backend"] == name].iloc[0] for name in ("on_device", "pytorch"))
    assert mine["parameters"] == theirs["parameters"]
    assert mine["weights_bytes"] == 4 * mine["parameters"] == theirs["weights_bytes"]
    assert mine["optimizer_state_bytes"] == pytest.approx(8 * mine["parameters"], rel=0.02)
    assert 0 < mine["host_runtime_mib"] < theirs["host_runtime_mib"]
    assert 0 < mine["installed_mib"] < theirs["installed_mib"]
    assert mine["loaded_mib"] > theirs["loaded_mib"] * 0.99, "the weights, and three graphs"
    assert 0 < mine["import_s"] < mine["setup_s"]


def ask_for_parity(folder: Path, made: Config) -> tuple[dict[str, ExpectedTensor], dict[str, ParityTrained]]:
    """What is expected of the first steps, and those of both backends, the reference first."""
    comparison = Comparison(made, "m-cpux1")
    comparison.shared.output.folder.mkdir(parents=True)
    answers = {}
    for name in made.backends:
        spec = comparison.shared.starter.spec(name, PARITY)
        with comparison.shared.starter.start_spec(spec, folder / name) as group:
            group.connect()
            group.request(Build())
            if name == "pytorch":
                (written,) = group.request(WriteExpectedTensors(steps=3))
                group.request(UseBatches(numbers=[[0, 1, 2, 3]]))  # begins anew
            (answers[name],) = group.request(TrainForParity(steps=3, compared=True))
            group.end()
    return written.expected, answers


@pytest.mark.exhaustive
@pytest.mark.parametrize("trained", ["all", "layers:1"])
def test_every_gradient_is_compared_and_frozen_weights_have_none(trained: str, tmp_path: Path) -> None:
    expected, answers = ask_for_parity(tmp_path, config(tmp_path, trained=trained))
    theirs, mine = answers["pytorch"], answers["on_device"]
    assert mine.losses == pytest.approx(theirs.losses, rel=1e-4)
    assert mine.gradient_norms == pytest.approx(theirs.gradient_norms, rel=1e-4)
    assert set(mine.differences) == {name for name in theirs.differences if not name.startswith(BUFFER)}
    assert {name.rpartition(" ")[0] for name in mine.differences} == {
        "second gradient",
        GRADIENT,
        LAST_GRADIENT,
        MOVEMENT,
    }
    worst = judge_tensors(mine.differences, expected, "fp32")[0]
    assert worst.share() < 0.3, "of what is allowed"
    in_base = [name for name in mine.differences if ".embeddings." in name]
    assert bool(in_base) == (trained == "all")
    assert mine.proof["not_imported"] == ["torch", "transformers"]
    (group,) = mine.proof["optimizer"]["groups"]
    read_back = [group[key] for key in ("lr", "weight_decay", "alpha", "beta")]
    assert read_back == pytest.approx([1e-3, 0.01, 0.9, 0.999]), "of the optimizer model's file"


@pytest.mark.exhaustive
def test_what_a_device_does_not_do_is_unsupported_and_the_others_go_on(tmp_path: Path) -> None:
    made = config(tmp_path, checkpointing=True)
    made = replace(made, measure=replace(made.measure, launches=0))
    Comparison(made, "m-cpu").measure()
    rows = csv_files.read(Path(made.results_dir) / "m-cpu.csv").set_index("backend")
    assert rows.loc["pytorch", "status"] == "untimed"
    assert rows.loc["on_device", "status"] == "unsupported"
    assert "in fp32 on one CPU rank, not with checkpointing" in rows.loc["on_device", "message"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("beit-base", "as on a device: Could not find an implementation for ResizeGrad"),
        ("mobilevit-small", "running statistics of a batch norm"),
    ],
)
def test_a_model_that_cannot_be_trained_so_is_unsupported_in_a_sentence(
    model: str, words: str, tmp_path: Path
) -> None:
    line = [f"model={model}", "model.size=mini", "device=cpu", "device.world_size=1", "measure=parity"]
    made = compose([*line, "backend=[pytorch,on_device]", f"results_dir={tmp_path}", "micro_batch=2"])
    Comparison(made, "m-cpu").measure()
    rows = csv_files.read(tmp_path / "m-cpu.csv").set_index("backend")
    assert rows.loc["on_device", "status"] == "unsupported"
    assert words in rows.loc["on_device", "message"]
