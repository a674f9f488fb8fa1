"""How many layers fit into a machine, and what a plan makes of it; no trial really runs."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bench.config.compose import compose
from bench.config.schema import Config
from bench.sweeps import fit, fitted_plan
from bench.sweeps.fit import (
    ENGINES_PEAK,
    MEMORY_SHARE,
    STATE_BYTES,
    ModelTrial,
    TrialFailed,
    choose,
    comparison_seconds,
    peak_bytes,
    step_seconds,
    trial_size,
)
from bench.sweeps.fitted_plan import FILE, Fitting, UnsizedModel

GIB = 2**30
TRIAL = ModelTrial(
    layers=2,
    parameters=60_000_000,  # 12.5 million a layer
    seconds=0.5,
    peak_bytes=2.0 * GIB,
    runtime_bytes=0.5 * GIB,
    flops=1e11,
    layers_share=0.4,
)
MEASURED = ("launches=4", "rounds=4", "block_seconds=0.6", "warmup_steps=1", "parity_steps=3", "explain=true")
BACKENDS = "backend=[pytorch,ortmodule,compile,pytorch_zero1]"


def a_comparison(*more: str) -> Config:
    """Four backends of bert-large, 24 layers, on two cores."""
    settings = [f"measure.{setting}" for setting in MEASURED]
    return compose(["model=bert-large", "device=cpu", "device.world_size=2", BACKENDS, *settings, *more])


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "available_cores", lambda: 2)


@pytest.fixture
def large() -> Config:
    """335 million parameters, 12.5 million in a layer."""
    config = a_comparison()
    return dataclasses.replace(config, model=dataclasses.replace(config.model, parameters=335_000_000))


def test_time_grows_with_the_flops_of_the_layers_alone() -> None:
    assert step_seconds(TRIAL, 2) == 0.5
    assert step_seconds(TRIAL, 7) == pytest.approx(0.5 * (0.6 + 0.4 * 3.5))


def test_without_counted_layers_all_work_is_theirs() -> None:
    unknown = ModelTrial(layers=2, parameters=1, seconds=0.5, peak_bytes=1.0, runtime_bytes=0.0)
    assert step_seconds(unknown, 6) == 1.5


def test_memory_grows_with_the_parameters_of_each_layer_and_the_activations(large: Config) -> None:
    activations = 1.5 * GIB - STATE_BYTES * 60e6
    expected = 0.5 * GIB + STATE_BYTES * (60e6 + 10 * 12.5e6) + activations * (0.6 + 0.4 * 6)
    assert peak_bytes(TRIAL, large.model, 12) == pytest.approx(expected)


def test_as_many_layers_as_the_memory_of_all_backends_holds(large: Config) -> None:
    choice = choose(TRIAL, large, memory_bytes=40 * GIB, seconds=1e9)
    layers = int(choice.size.removeprefix("layers:"))
    room = MEMORY_SHARE * 40 * GIB / (2 * 4 * ENGINES_PEAK)
    assert peak_bytes(TRIAL, large.model, layers) <= room < peak_bytes(TRIAL, large.model, layers + 1)
    assert choice.resident == "all"


def test_where_the_fewest_layers_do_not_fit_side_by_side_groups_run_one_after_the_other(
    large: Config,
) -> None:
    choice = choose(TRIAL, large, memory_bytes=20 * GIB, seconds=1e9)
    assert choice.resident == "one"
    assert choice.size.startswith("layers:")


def test_a_model_that_does_not_fit_at_all_says_what_it_needs(large: Config) -> None:
    choice = choose(TRIAL, large, memory_bytes=2 * GIB, seconds=1e9)
    assert choice.size == ""
    assert choice.reason == "needs 7 GiB with 2 layers, and this machine has 2"


def test_as_many_layers_as_the_time_allows_and_never_fewer_than_the_trial_had(large: Config) -> None:
    ten_minutes = choose(TRIAL, large, memory_bytes=400 * GIB, seconds=600)
    assert 2 < int(ten_minutes.size.removeprefix("layers:")) < 24
    assert 500 < ten_minutes.expected_s <= 600
    no_time = choose(TRIAL, large, memory_bytes=400 * GIB, seconds=1)
    assert no_time.size == "layers:2"
    assert no_time.expected_s > 1


def test_all_layers_are_the_published_size(large: Config) -> None:
    assert choose(TRIAL, large, memory_bytes=4000 * GIB, seconds=1e9).size == "published"


def test_a_comparison_of_more_launches_takes_longer(large: Config) -> None:
    assert comparison_seconds(a_comparison("measure.launches=8"), 1.0) > 1.5 * comparison_seconds(large, 1.0)


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"num_hidden_layers": 24}, "layers:2"),
        ({"depths": [2, 2, 6, 2]}, "layers:4"),  # one in each stage
        ({"num_hidden_layers": 2}, "published"),
        ({}, "published"),
    ],
)
def test_a_trial_has_few_layers(config: dict[str, Any], size: str, large: Config) -> None:
    assert trial_size(dataclasses.replace(large.model, config=config)) == size


class Machine:
    """Runs trials by a script; the time is what a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tried: list[str] = []
        self.failing: set[str] = set()

    def run(self, config: Config, results: Path) -> ModelTrial:
        model = config.model.name
        self.tried.append(model)
        if model in self.failing:
            raise TrialFailed("the trial ended as oom: out of memory")
        return TRIAL

    def candidate(self, model: str, *more: str) -> UnsizedModel:
        common = [f"results_dir={self.folder}", "device=cpu", "measure.resident=one"]
        return UnsizedModel(model=model, config=compose([*common, f"model={model}", *more]))

    def fit(self, *models: str, seconds: float = 3600) -> Fitting:
        fitting = Fitting(
            [self.candidate(model) for model in models],
            seconds=seconds,
            say=lambda _: None,
            trial=self.run,
            clock=lambda: 0.0,
        )
        fitting.choose_all()
        return fitting


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(fitted_plan, "memory_bytes", lambda: 200 * GIB)
    return Machine(tmp_path / "reproduce")


def test_each_model_is_tried_once_and_its_choice_stays_on_file(machine: Machine) -> None:
    first = machine.fit("bert-large", "gpt2")
    again = machine.fit("bert-large", "gpt2")
    assert machine.tried == ["bert-large", "gpt2"]
    assert again.choices == first.choices
    assert list(json.loads((machine.folder / FILE).read_text())["models"]) == ["bert-large", "gpt2"]


def test_the_choice_stays_where_results_were_begun_and_follows_the_time_elsewhere(machine: Machine) -> None:
    before = machine.fit("bert-large", "gpt2", seconds=36_000).choices.models
    (machine.folder / "bert-large-cpux2.csv").write_text("begun")
    after = machine.fit("bert-large", "gpt2", seconds=600).choices.models
    assert after["bert-large"].choice == before["bert-large"].choice
    assert after["gpt2"].choice.expected_s < before["gpt2"].choice.expected_s


def test_a_trial_that_failed_is_named_and_tried_again(machine: Machine) -> None:
    machine.failing = {"gpt2"}
    fitting = machine.fit("bert-large", "gpt2")
    assert fitting.unmeasured == {"gpt2": "the trial ended as oom: out of memory"}
    assert list(fitting.choices.models) == ["bert-large"]
    machine.failing = set()
    assert machine.fit("bert-large", "gpt2").unmeasured == {}
    assert machine.tried == ["bert-large", "gpt2", "gpt2"]


def test_the_choices_of_another_machine_do_not_hold_here(machine: Machine) -> None:
    machine.fit("bert-large")
    path = machine.folder / FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"machine": "another"}))
    machine.fit("bert-large")
    assert machine.tried == ["bert-large", "bert-large"]
