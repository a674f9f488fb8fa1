"""Trackers: their real libraries on local files, and processes that hang, crash or refuse."""

import dataclasses
import importlib
import json
import shlex
import struct
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as program
from bench.config.track import LIBRARIES, Mlflow, Tensorboard, Track, Wandb
from bench.measure import comparison as measuring
from bench.results import csv_files
from bench.tracking.track import track
from tests.support.configs import a_config
from tests.support.factories import comparison, failed
from tests.support.processes import gone
from tests.support.result_files import write_records

pytestmark = [pytest.mark.exhaustive, pytest.mark.once]


def needs(tracker: str) -> None:
    for package in LIBRARIES[tracker]:
        try:
            metadata.distribution(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed: pip install '.[{tracker}]'")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A comparison with a backend of another stack, and one that failed."""
    seconds = {"pytorch": [[2.0, 2.1], [2.0, 2.2]], "pytorch@modern": [[1.0, 1.1], [1.0, 1.2]]}
    path = tmp_path / "results" / "m-cpux2-seed-3-4f08.csv"
    write_records(path, [*comparison(seconds), failed("ortmodule", "oom", "no memory left")])
    return path


def settings(results: Path, **trackers: object) -> Track:
    return Track(folder=str(results.parent / "tracking"), timeout_s=1000, **trackers)  # type: ignore[arg-type]


def test_mlflow_has_parameters_figures_of_each_backend_and_files(results: Path) -> None:
    needs("mlflow")
    outcome = track(results, settings(results, mlflow=Mlflow(uri=None, experiment="trains")))
    assert outcome.failed == []
    assert outcome.logged[0].startswith("logged to mlflow: run ")
    client = importlib.import_module("mlflow").MlflowClient(f"sqlite:///{results.parent}/tracking/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("trains").experiment_id])
    assert run.info.run_name == results.stem
    assert run.info.status == "FAILED"  # a backend did
    params, tags, metrics = run.data.params, run.data.tags, run.data.metrics
    rows = csv_files.read(results)
    assert params["model"] == rows["model"].iloc[0]
    assert params["world_size"] == str(rows["world_size"].iloc[0])
    assert params["pytorch:modern/engine"] == "eager"
    assert tags["ortmodule/status"] == "oom"
    assert tags["ortmodule/message"] == "no memory left"
    low, ratio, high = (metrics[f"pytorch:modern/speedup{end}"] for end in ("_low", "", "_high"))
    assert low < ratio < high
    assert ratio == pytest.approx(1.93, abs=0.1)
    assert "pytorch:modern/peak_mib" in metrics
    assert not [name for name in metrics if name.startswith("ortmodule/")]
    history = client.get_metric_history(run.info.run_id, "pytorch:modern/samples_per_s_by_round")
    mine = rows[rows["backend"] == "pytorch@modern"]["samples_per_s"]
    assert [(one.step, one.value) for one in history] == list(enumerate(mine, start=1))
    kept = Path(client.download_artifacts(run.info.run_id, results.name))
    assert kept.read_bytes() == results.read_bytes()
    assert (
        "| pytorch@modern |"
        in Path(client.download_artifacts(run.info.run_id, f"{results.stem}.md")).read_text()
    )


def test_mlflow_adds_a_later_run_to_the_same_experiment(results: Path) -> None:
    needs("mlflow")
    wanted = settings(results, mlflow=Mlflow(uri=None, experiment="trains"))
    assert not [*track(results, wanted).failed, *track(results, wanted).failed]
    client = importlib.import_module("mlflow").MlflowClient(f"sqlite:///{results.parent}/tracking/mlflow.db")
    assert len(client.search_runs([client.get_experiment_by_name("trains").experiment_id])) == 2


def test_wandb_keeps_an_offline_run_with_configuration_summary_and_artifact(results: Path) -> None:
    needs("wandb")
    outcome = track(results, settings(results, wandb=Wandb(mode="offline", project="trains", entity=None)))
    assert outcome.failed == []
    (folder,) = (results.parent / "tracking" / "wandb").glob("offline-run-*")
    assert str(folder) in outcome.logged[0]
    (file,) = folder.glob("*.wandb")
    records = read_wandb(file)
    config = {
        update.key: json.loads(update.value_json) for one in records for update in one.run.config.update
    }
    assert config["model"] == csv_files.read(results)["model"].iloc[0]
    assert config["backends"]["pytorch@modern"]["engine"] == "eager"
    summary = {
        "/".join([update.key] if update.key else update.nested_key): json.loads(update.value_json)
        for one in records
        for update in one.summary.update
    }
    assert summary["ortmodule/status"] == "oom"
    low, ratio, high = (summary[f"pytorch@modern/speedup{end}"] for end in ("_low", "", "_high"))
    assert low < ratio < high
    history = [
        json.loads(item.value_json)
        for one in records
        for item in one.history.item
        if "pytorch@modern/samples_per_s_by_round" in (item.key, *item.nested_key)
    ]
    rows = csv_files.read(results)
    assert history == list(rows[rows["backend"] == "pytorch@modern"]["samples_per_s"])
    entries = {entry.path for one in records for entry in one.request.log_artifact.artifact.manifest.contents}
    entries |= {entry.path for one in records for entry in one.artifact.manifest.contents}
    assert entries == {results.name, f"{results.stem}.md"}


def read_wandb(file: Path) -> list[Any]:
    """The records of an offline run: a log in LevelDB's format behind a header of W&B's own."""
    record_type = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    content = file.read_bytes()
    records, parts, place = [], b"", 7
    while place + 7 <= len(content):
        left = BLOCK - place % BLOCK
        if left < 7:  # no header fits into what is left of the block
            place += left
            continue
        _checksum, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # the whole record, or its last part
            records.append(record_type.FromString(parts))
            parts = b""
    return records


BLOCK = 32 * 1024
"""Bytes of a block of such a log."""


def test_tensorboard_has_a_run_for_each_backend_and_the_files_beside_them(results: Path) -> None:
    needs("tensorboard")
    outcome = track(results, settings(results, tensorboard=Tensorboard(subfolder="boards")))
    assert outcome.failed == []
    (folder,) = (results.parent / "tracking" / "boards" / results.stem).iterdir()
    assert (folder / results.name).read_bytes() == results.read_bytes()
    assert (folder / f"{results.stem}.md").exists()
    event_accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")

    def load(backend: str) -> Any:
        accumulator = event_accumulator.EventAccumulator(str(folder / backend))
        accumulator.Reload()
        return accumulator

    modern, ortmodule = load("pytorch@modern"), load("ortmodule")
    low, ratio, high = (modern.Scalars(f"speedup{end}")[0].value for end in ("_low", "", "_high"))
    assert low < ratio < high
    rows = csv_files.read(results)
    mine = rows[rows["backend"] == "pytorch@modern"]["samples_per_s"]
    drawn = modern.Scalars("samples_per_s_by_round")
    assert [one.step for one in drawn] == [1, 2, 3, 4]
    assert [one.value for one in drawn] == pytest.approx(list(mine), rel=1e-6)
    assert ortmodule.Tags()["scalars"] == []
    assert ortmodule.Tensors("status")[0].tensor_proto.string_val[0] == b"oom"
    assert b"| pytorch@modern |" in modern.Tensors("page")[0].tensor_proto.string_val[0]
    hparams = modern.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    data = importlib.import_module(
        "tensorboard.plugins.hparams.metadata"
    ).parse_session_start_info_plugin_data(hparams)
    assert data.hparams["backend"].string_value == "pytorch@modern"
    assert data.hparams["world_size"].string_value == str(rows["world_size"].iloc[0])


def test_a_foreign_name_of_a_backend_leaves_no_folder(results: Path) -> None:
    needs("tensorboard")
    write_records(results, comparison({"pytorch": [[2.0]], "../../../outside": [[1.0]]}))
    outcome = track(results, settings(results, tensorboard=Tensorboard(subfolder="boards")))
    assert outcome.failed == []
    (folder,) = (results.parent / "tracking" / "boards" / results.stem).iterdir()
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"pytorch", "__.._.._outside"}
    assert not list(results.parent.rglob("outside"))


def test_no_tracker_imports_a_framework() -> None:
    for name in ("mlflow", "wandb", "tensorboard"):
        needs(name)
    code = (
        "import sys; import bench.tracking.{0}_tracker; "
        "print(sorted({{'torch', 'tensorflow', 'transformers'}} & {{*sys.modules}}))"
    )
    for name in ("mlflow", "wandb", "tensorboard"):
        ran = subprocess.run(
            [sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True
        )
        assert ran.stdout.strip().splitlines()[-1] == "[]"


# Trackers that fail


def test_a_server_that_is_not_there_is_one_sentence_and_stops_no_other_tracker(results: Path) -> None:
    needs("mlflow")
    needs("tensorboard")
    wanted = settings(
        results,
        mlflow=Mlflow(uri="sqlite:////proc/nowhere/mlflow.db", experiment="trains"),
        tensorboard=Tensorboard(subfolder="boards"),
    )
    outcome = track(results, wanted)
    assert len(outcome.logged) == 1
    (sentence,) = outcome.failed
    assert sentence.startswith("mlflow did not get the results (")
    assert "\n" not in sentence
    assert sentence.endswith(
        f"which are kept in {results}; put it right and run "
        f"`python -m bench.tracking {shlex.quote(str(results))}` "
        "with the same track=…, which measures nothing."
    )


def process(folder: Path, code: str) -> list[str]:
    """A process in place of bench.tracking.process; `answer` is the file for its answer."""
    script = folder / "tracker.py"
    script.write_text(
        "import pathlib, sys, time, os\nanswer = pathlib.Path(sys.argv[1])\n" + textwrap.dedent(code)
    )
    return [sys.executable, str(script)]


BOTH = {"mlflow": Mlflow(uri=None, experiment="e"), "wandb": Wandb(mode="offline", project="p", entity=None)}


def test_a_process_that_hangs_is_ended_and_what_it_has_logged_counts(results: Path, tmp_path: Path) -> None:
    hanging = process(
        tmp_path,
        """
        answer.write_text('[{"mlflow": "here"}, {}]')
        if os.fork() == 0:
            pathlib.Path(sys.argv[0]).with_name("child").write_text(str(os.getpid()))
        time.sleep(1000)
        """,
    )
    wanted = dataclasses.replace(settings(results, **BOTH), timeout_s=5)
    outcome = track(results, wanted, hanging)
    assert outcome.logged == ["logged to mlflow: here"]
    (sentence,) = outcome.failed
    assert sentence.startswith(
        "wandb did not get the results (it took longer than track.timeout_s=5), which are"
    )
    child = int((tmp_path / "child").read_text())
    assert gone([child])


def test_a_process_that_crashes_is_a_sentence_for_each_tracker(results: Path, tmp_path: Path) -> None:
    outcome = track(results, settings(results, **BOTH), process(tmp_path, "os.abort()"))
    assert outcome.logged == []
    assert [sentence.split()[0] for sentence in outcome.failed] == ["mlflow", "wandb"]
    assert all("its process ended with -6" in sentence for sentence in outcome.failed)


def test_a_tracker_that_fails_costs_the_exit_status_and_no_result(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = a_config(tmp_path)
    config.track.wandb = Wandb(mode="offline", project="p", entity=None)
    monkeypatch.setattr("bench.tracking.track.COMMAND", process(tmp_path, "sys.exit('no luck')"))
    done = measuring.ComparisonOutcome(csv=results, failures=["a launch failed"])
    monkeypatch.setattr(measuring, "measure_comparison", lambda *_: done)
    before = results.read_bytes()
    first, second = program.measure_and_report(config, results.stem, "make bench")
    assert first == "a launch failed"
    assert second.startswith(
        "wandb did not get the results (its process ended with 1: no luck), which are kept"
    )
    assert results.read_bytes() == before
    assert (tmp_path / "reports" / "index.md").exists()
