"""`make matrix`: one comparison for each model."""

import csv
from pathlib import Path

import pytest

from bench.config.compose import compose
from bench.config.differences import overrides_of
from bench.config.schema import Config
from bench.measure.plan import preflight
from bench.results.records import Record
from bench.setup import stacks
from bench.setup.checkout import ROOT
from bench.studies.sweeps import __main__ as sweeps
from bench.studies.sweeps import comparisons, plan_file, runner
from tests.support.factories import comparison, workload
from tests.support.result_files import write_records

pytestmark = pytest.mark.once


def recorded(model: str) -> list[Record]:
    """A comparison of one launch and one round."""
    return comparison(
        {"pytorch": [[2.0]], "ortmodule": [[1.6]]},
        comparison=f"{model}-cpux2",
        workload=workload(model=model, size="mini"),
    )


def planned_models(part: str) -> list[str]:
    (planned,) = plan_file.select_parts(plan_file.load_plan("matrix"), [part])
    return list(planned.models)


@pytest.fixture
def both_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stack seems set up, wherever the tests run: the checks find in it what they find here."""
    monkeypatch.setattr(stacks, "installed", lambda stack=None: stacks.installed_here())
    monkeypatch.setattr(preflight, "recorded_choice", lambda env: None)  # nothing is known to be missing


@pytest.mark.slow
@pytest.mark.ort
@pytest.mark.usefixtures("both_stacks")
def test_make_matrix_measures_every_model_once_in_mini(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, list[str]]] = []

    def measure(config: Config, stem: str) -> None:
        asked.append((config.model.name, config.model.size, overrides_of(config)))
        write_records(Path(config.results_dir) / f"{stem}.csv", recorded(config.model.name))

    monkeypatch.setattr(runner, "measure_comparison", measure)
    out = [f"results_dir={tmp_path / 'm'}", f"reports_dir={tmp_path / 'reports'}"]
    assert sweeps.main(["matrix", "parts=models,choices", "device=cpu", *out]) == 0
    assert [name for name, _, _ in asked] == planned_models("models") + planned_models("choices")
    assert {size for _, size, _ in asked} == {"mini"}
    lines = [["experiment=matrix", "model=bert-large"], ["experiment=choices", "model=whisper-small"]]
    for line, (_, _, overrides) in zip(lines, [asked[0], asked[-1]], strict=True):
        assert overrides == overrides_of(compose(["study=matrix", "device=cpu", *line]))
    with (tmp_path / "reports" / "support.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * len(asked)
    assert (tmp_path / "reports" / "support.md").exists()


def test_the_matrix_has_twenty_architectures_of_a_config_json_alone() -> None:
    folders = [ROOT / folder for folder in planned_models("architectures")]
    assert len(folders) >= 20
    for folder in folders:
        assert [path.name for path in folder.iterdir()] == ["config.json"]


def test_a_preset_is_no_model_of_the_part_with_folders_nor_a_folder_of_the_others() -> None:
    plan = plan_file.load_plan("matrix")
    (part,) = plan_file.select_parts(plan, ["architectures"], ["gpt2"])
    (others,) = plan_file.select_parts(plan, ["models"], ["conf/sweeps/architectures/gpt2"])
    assert comparisons.plan_comparisons(plan, [part, others], []) == []


@pytest.mark.ort
@pytest.mark.usefixtures("both_stacks")
def test_some_models_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measure(config: Config, stem: str) -> None:
        asked.append(stem)
        write_records(Path(config.results_dir) / f"{stem}.csv", recorded(config.model.name))

    monkeypatch.setattr(runner, "measure_comparison", measure)
    out = [f"results_dir={tmp_path / 'm'}", f"reports_dir={tmp_path / 'reports'}"]
    assert sweeps.main(["matrix", "device=cpu", "model=gpt2,t5-large", "seq_len=32", *out]) == 0
    assert [stem[:-5] for stem in asked] == [
        "gpt2-cpux2-pytorch_zero1-mini-seq_len-32",
        "t5-large-cpux2-pytorch_zero1-mini-seq_len-32",
        "gpt2-cpux2-19-backends-parity-mini-seq_len-32",
        "t5-large-cpux2-19-backends-parity-mini-seq_len-32",
    ]
