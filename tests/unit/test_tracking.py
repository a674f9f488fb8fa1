"""How trackers are chosen, that they change nothing that is measured, and what they are given."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.config.compose import compose
from bench.config.differences import overrides_of
from bench.config.identity import config_hash
from bench.config.naming import file_stem
from bench.config.track import Mlflow, Track, Wandb
from bench.errors import UserError
from bench.plugins.tracking.__main__ import main
from bench.plugins.tracking.content import TrackedComparison, content_of
from bench.plugins.tracking.track import check, settings_of
from bench.report.content.collection import read_comparison
from bench.results import csv_files
from bench.results.records import Record
from bench.setup import stacks
from tests.support.configs import a_config
from tests.support.factories import comparison, failed, two_backends
from tests.support.result_files import write_records

# Choosing


def test_a_tracker_or_several_are_chosen_and_work_offline_unless_asked_otherwise() -> None:
    one = compose(["track=mlflow", "results_dir=out"]).track
    assert one.names == ["mlflow"]
    assert one.folder == "out/tracking"
    assert one.mlflow is not None
    assert one.mlflow.uri is None
    several = compose(["track=[wandb,mlflow]", "track.wandb.project=mine"]).track
    assert several.names == ["mlflow", "wandb"]
    assert several.wandb == Wandb(mode="offline", project="mine", entity=None)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("track=neptune", "track=neptune does not exist; choose from: mlflow, wandb."),
        ("track.timeout_s=0", "track.timeout_s must be above 0, not 0.0."),
        (
            "track.mlflow.uri=http://127.0.0.1:5000",
            "the command line sets a part of what is null here, such as model.lora of most models, or "
            "track.mlflow without track=mlflow; choose it, or write the whole in a file of your own, as "
            "conf/model/llama-2-7b.yaml does.",
        ),
    ],
)
def test_a_mistake_is_one_sentence(override: str, sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        compose([override])
    assert str(refused.value) == sentence


def test_tracking_changes_neither_the_hash_nor_the_file_nor_the_command() -> None:
    overrides = ["track=[mlflow,wandb]", "track.mlflow.experiment=mine", "seed=3"]
    tracked, plain = compose(overrides), compose(["seed=3"])
    assert config_hash(tracked) == config_hash(plain)
    assert file_stem(tracked, "cpu") == file_stem(plain, "cpu")
    assert overrides_of(tracked) == overrides_of(plain)


def test_a_missing_library_is_refused_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = dataclasses.replace(a_config(tmp_path), track=chosen(tmp_path))
    packages = dict.fromkeys(["mlflow-skinny", "SQLAlchemy", "alembic"], "1.0")
    here = stacks.Installed("python", Path("env"), "3.11.7", packages)
    monkeypatch.setattr(stacks, "installed_here", lambda: here)
    with pytest.raises(UserError) as refused:
        check(config)
    assert str(refused.value) == (
        f"track=wandb needs wandb, which is not installed; run `{sys.executable} -m pip install "
        "'.[wandb]' -c requirements/ort-cpu.txt`, which leaves all that is measured as it is, or "
        "leave it out."
    )
    packages["wandb"] = "0.20.0"
    check(config)


def chosen(folder: Path) -> Track:
    return Track(
        folder=str(folder),
        timeout_s=60,
        mlflow=Mlflow(uri=None, experiment="e"),
        wandb=Wandb(mode="offline", project="p", entity=None),
    )


def test_the_overrides_of_chosen_trackers_choose_the_same_again(tmp_path: Path) -> None:
    wanted = chosen(tmp_path / "a folder, with=signs")
    assert compose([*settings_of(wanted), "track.timeout_s=60"]).track == wanted


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["track=mlflow"],
            "Nothing to log; write python -m bench.plugins.tracking results/….csv track=mlflow.",
        ),
        (
            ["a.csv"],
            "No tracker is chosen; write python -m bench.plugins.tracking results/….csv track=mlflow.",
        ),
    ],
)
def test_the_command_wants_files_and_trackers(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == f"{sentence}\n"


# What is logged


def content(folder: Path, records: Sequence[Record]) -> TrackedComparison:
    folder.mkdir(exist_ok=True)
    path = folder / "m-cpux2.csv"
    write_records(path, records)
    return content_of(read_comparison(path), folder)


def test_settings_figures_and_files_are_those_of_the_results_file(tmp_path: Path) -> None:
    seconds = {"pytorch": [[2.0, 2.0], [2.0, 2.0]], "pytorch@modern": [[1.0, 1.0], [1.0, 2.0]]}
    made = content(tmp_path, comparison(seconds))
    rows = csv_files.read(tmp_path / "m-cpux2.csv")
    assert made.name == "m-cpux2"
    assert made.passed
    assert made.settings["model"] == rows["model"].iloc[0]
    assert made.settings["global_batch"] == str(rows["global_batch"].iloc[0])
    assert made.settings["git_commit"] == "0123456789abcdef0123456789abcdef01234567"
    assert made.settings["machine"]
    assert made.settings["pytorch:modern/engine"] == "eager"
    low, ratio, high = (made.figures[f"pytorch:modern/speedup{end}"] for end in ("_low", "", "_high"))
    assert low < ratio < high
    assert "pytorch/speedup" not in made.figures  # the reference has none
    assert made.figures["pytorch:modern/peak_mib"] == rows["host_peak_mib"].max()
    assert made.words["pytorch:modern/verdict"] in ("faster", "inconclusive")
    assert made.files == [tmp_path / "m-cpux2.csv", tmp_path / "m-cpux2.svg"]
    assert made.files[1].read_text().startswith("<?xml")


def test_a_backend_that_failed_has_a_status_and_no_figure(tmp_path: Path) -> None:
    made = content(
        tmp_path, [*comparison({"pytorch": [[2.0]]}), failed("ortmodule", "oom", "no memory left")]
    )
    assert not made.passed
    assert made.words["ortmodule/status"] == "oom"
    assert made.words["ortmodule/message"] == "no memory left"
    assert not [name for name in made.figures if name.startswith("ortmodule/")]


def test_comparisons_that_leave_settings_alone_say_that_their_speedups_are_no_results(tmp_path: Path) -> None:
    assert content(tmp_path / "held", two_backends()).settings["controlled"] == "1"
    left_alone = content(
        tmp_path / "alone", [dataclasses.replace(one, allocator="system") for one in two_backends()]
    )
    assert left_alone.settings["controlled"] == "0"
    assert left_alone.files == [tmp_path / "alone" / "m-cpux2.csv"]  # and no figure shows them
