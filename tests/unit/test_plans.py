"""From a configuration to the plan of a comparison, and where its files lie."""

import os
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from bench.config.choices import LOSS_TOLERANCE
from bench.config.compose import compose
from bench.config.data import Data
from bench.config.schema import Config
from bench.config.training import Precision
from bench.launch.spec import WorkerSpec
from bench.measure.groups.starting import GroupStarter
from bench.measure.plan.plans import PARITY_IN_FP32, SEARCH, ComparisonPlan, Launch, Tolerances, timed
from bench.measure.plan.resolve import GRADIENT_TOLERANCE, resolve
from tests.support.configs import a_config

pytestmark = pytest.mark.once


def plan_of(config: Config) -> ComparisonPlan:
    return resolve(config, "m-cpux2", gpus=[], cores=[(0,), (1,)])


def test_the_reference_comes_first_and_plans_cannot_be_changed(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    config.reference = "ortmodule"
    plan = plan_of(config)
    assert next(iter(plan.backends)) == "ortmodule"
    with pytest.raises(FrozenInstanceError):
        plan.cores = []  # type: ignore[misc]


def variables_of(plan: ComparisonPlan, name: str, launch: Launch) -> dict[str, str]:
    """The environment variables that a backend's ranks are started with."""
    started: dict[str, Any] = {}

    def start(_: WorkerSpec, **given: Any) -> Any:
        started.update(given)

    GroupStarter(plan, start).start(name, launch)
    variables: dict[str, str] = started["variables"]
    return variables


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp32"])
def test_the_step_in_fp32_gets_the_variables_of_fp32(tmp_path: Path, precision: str) -> None:
    """With those of tf32, ONNX Runtime would round its fp32 products to TF32 and be called diverged."""
    config = a_config(tmp_path)
    config.precision = Precision(name=precision)
    plan = plan_of(config)
    for name in plan.backends:
        assert variables_of(plan, name, PARITY_IN_FP32)["NVIDIA_TF32_OVERRIDE"] == "0"
        assert ("NVIDIA_TF32_OVERRIDE" in variables_of(plan, name, timed(1))) is (precision != "tf32")
        backend = plan.backends[name]
        spec = GroupStarter(plan).spec(name, PARITY_IN_FP32)
        assert backend.settings_of(spec)["precision"] == "fp32", "what other nodes are told"


@pytest.mark.parametrize("blas", ["stock", "full"])
def test_the_path_of_mkl_reaches_ranks_records_and_other_nodes(tmp_path: Path, blas: str) -> None:
    config = a_config(tmp_path)
    config.device.blas = blas
    plan = plan_of(config)
    for name, backend in plan.backends.items():
        assert backend.spec.blas == blas, "what each rank has to prove"
        preloaded = variables_of(plan, name, timed(1)).get("LD_PRELOAD", "")
        assert ("libmkl_full_path.so" in preloaded) is (blas == "full")
        assert plan.records[name].blas == blas
        assert backend.settings["blas"] == blas, "what other nodes are told"


def with_methods(folder: Path) -> Config:
    """A baseline, and a backend for each thing that one may have otherwise than its comparison."""
    config = a_config(folder)
    pytorch = config.backends["pytorch"]
    config.backends = {
        "pytorch": pytorch,
        "bf16": replace(pytorch, precision="bf16"),
        "fp16": replace(pytorch, precision="fp16"),
        "checkpointing": replace(pytorch, checkpointing=True),
        "accumulation": replace(pytorch, accumulate=4),
        "adafactor": replace(pytorch, optimizer="adafactor"),
    }
    return config


def test_what_a_backend_has_otherwise_reaches_its_ranks_and_its_record_alone(tmp_path: Path) -> None:
    plan = plan_of(with_methods(tmp_path))
    specs = {name: backend.spec for name, backend in plan.backends.items()}
    assert {name: spec.precision.name for name, spec in specs.items() if spec.precision.name != "fp32"} == {
        "bf16": "bf16",
        "fp16": "fp16",
    }
    assert specs["fp16"].precision == compose(["precision=fp16"]).precision, (
        "as the whole comparison would have it"
    )
    assert [name for name, spec in specs.items() if spec.checkpointing] == ["checkpointing"]
    assert {(spec.micro_batch, spec.grad_accum) for spec in specs.values()} == {(4, 2)}
    assert {name: (spec.samples_per_pass, spec.passes, spec.accumulate) for name, spec in specs.items()} == {
        name: (1, 8, 4) if name == "accumulation" else (4, 2, 1) for name in specs
    }
    for name, spec in specs.items():
        workload = plan.records[name].workload
        assert (workload.precision, workload.checkpointing) == (spec.precision.name, spec.checkpointing)
        assert (workload.micro_batch, workload.grad_accum) == (spec.samples_per_pass, spec.passes)
    recomputing = {
        name for name in plan.backends if "ORTMODULE_MEMORY_OPT_LEVEL" in variables_of(plan, name, timed(1))
    }
    assert recomputing == {"checkpointing"}


def test_a_backend_prepares_the_same_batches_in_its_own_way(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    pytorch = config.backends["pytorch"]
    config.data = Data(name="hf", path="texts", processor="words", workers=1)
    config.backends = {"pytorch": pytorch, "workers": replace(pytorch, workers=2)}
    plan = plan_of(config)
    specs = {name: backend.spec.data for name, backend in plan.backends.items()}
    assert specs["pytorch"] == config.data
    assert specs["workers"] == replace(config.data, workers=2)
    loaders = {name: record.workload.loader for name, record in plan.records.items()}
    assert loaders == {"pytorch": "workers=1", "workers": "workers=2"}
    assert config.data.loader_on("cuda") == "workers=1 pinned_memory=true"
    assert Data(name="synthetic").loader_on("cuda") == "", "its batches lie ready"


def test_a_backend_is_judged_by_its_own_precision_and_update(tmp_path: Path) -> None:
    backends = plan_of(with_methods(tmp_path)).backends
    assert {name: backend.update for name, backend in backends.items() if backend.update} == {
        "adafactor": "adafactor"
    }
    assert backends["pytorch"].tolerances == Tolerances(loss=1e-3, gradient_norm=GRADIENT_TOLERANCE["fp32"])
    assert backends["bf16"].tolerances == Tolerances(
        loss=LOSS_TOLERANCE["bf16"], gradient_norm=GRADIENT_TOLERANCE["bf16"]
    )


def test_the_log_of_a_search_is_that_of_its_last_trial(tmp_path: Path) -> None:
    output = plan_of(a_config(tmp_path)).output
    assert output.log_of("pytorch", SEARCH) is None
    for number in (9, 10):
        log = output.folder_of_trial("pytorch", number) / "log.txt"
        log.parent.mkdir(parents=True)
        log.touch()
        os.utime(log, (number, number))
    assert output.log_of("pytorch", SEARCH) == log
    assert output.log_of("pytorch", timed(1)) is None


@pytest.mark.parametrize(
    ("overrides", "size"),
    [
        ("", "published"),
        ("++model.config.num_labels=3", "published"),
        ("model.config.num_hidden_layers=2", "changed"),
        ("++model.config.hidden_dropout_prob=0", "changed"),
        ("++model.config.attention_probs_dropout_prob=0", "changed"),
        ("model.size=layers:6", "layers:6"),
        ("model.size=layers:6 model.config.hidden_size=512", "changed"),
        ("model.size=mini ++model.config.hidden_dropout_prob=0", "mini"),
    ],
)
def test_a_shipped_model_with_other_dimensions_is_not_the_published_one(overrides: str, size: str) -> None:
    line = ["model=bert-large", "device=cpu", "device.world_size=2", "backend=[pytorch]"]
    workload = plan_of(compose([*line, *overrides.split()])).records["pytorch"].workload
    assert (workload.size, workload.published_layers) == (size, 24)
