"""Trackers: their real clients on local files, and processes that hang, crash or refuse."""

import dataclasses
import importlib
import shlex
import sys
import textwrap
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from bench import __main__ as program
from bench.config.track import Mlflow, Track, Wandb
from bench.measure import comparison as measuring
from bench.plugins.tracking.track import LIBRARIES, track
from bench.results import csv_files
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
    said: list[str] = []
    wanted = settings(results, mlflow=Mlflow(uri=None, experiment="trains"))
    assert track(results, wanted, said.append) == []
    assert said[0].startswith("logged to mlflow: run ")
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
    assert not [name for name in metrics if name.startswith("ortmodule/")]
    kept = Path(client.download_artifacts(run.info.run_id, results.name))
    assert kept.read_bytes() == results.read_bytes()
    assert Path(client.download_artifacts(run.info.run_id, f"{results.stem}.svg")).exists()


def test_wandb_keeps_an_offline_run(results: Path) -> None:
    needs("wandb")
    said: list[str] = []
    wanted = settings(results, wandb=Wandb(mode="offline", project="trains", entity=None))
    assert track(results, wanted, said.append) == []
    (folder,) = (results.parent / "tracking" / "wandb").glob("offline-run-*")
    assert str(folder) in said[0]
    (file,) = folder.glob("*.wandb")
    logged = file.read_bytes()
    for word in ("pytorch:modern/speedup_low", "ortmodule/status", "no memory left", results.name):
        assert word.encode() in logged


# Trackers that fail


def test_a_server_that_is_not_there_is_one_sentence_and_stops_no_other_tracker(results: Path) -> None:
    needs("mlflow")
    needs("wandb")
    wanted = settings(
        results,
        mlflow=Mlflow(uri="sqlite:////proc/nowhere/mlflow.db", experiment="trains"),
        wandb=Wandb(mode="offline", project="p", entity=None),
    )
    said: list[str] = []
    (sentence,) = track(results, wanted, said.append)
    assert len(said) == 1
    assert sentence.startswith("mlflow did not get the results (")
    assert "\n" not in sentence
    assert sentence.endswith(
        f"which are kept in {results}; put it right and run "
        f"`python -m bench.plugins.tracking {shlex.quote(str(results))}` "
        "with the same track=…, which measures nothing."
    )


BOTH = {"mlflow": Mlflow(uri=None, experiment="e"), "wandb": Wandb(mode="offline", project="p", entity=None)}


@pytest.fixture
def run_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has code run in place of `python -m bench.plugins.tracking`."""

    def replace(code: str) -> None:
        script = tmp_path / "tracker.py"
        script.write_text("import pathlib, sys, time, os\n" + textwrap.dedent(code))
        monkeypatch.setattr("bench.plugins.tracking.track.COMMAND", [sys.executable, str(script)])

    return replace


def test_a_process_that_hangs_is_ended_and_what_it_has_logged_counts(
    results: Path, tmp_path: Path, run_instead: Callable[[str], None]
) -> None:
    run_instead(
        """
        print("logged to mlflow: here", flush=True)
        if os.fork() == 0:
            pathlib.Path(sys.argv[0]).with_name("child").write_text(str(os.getpid()))
        time.sleep(1000)
        """
    )
    said: list[str] = []
    (sentence,) = track(results, dataclasses.replace(settings(results, **BOTH), timeout_s=5), said.append)
    assert said == ["logged to mlflow: here"]
    assert sentence.startswith(
        "wandb did not get the results (it took longer than track.timeout_s=5), which are"
    )
    assert gone([int((tmp_path / "child").read_text())])


def test_a_tracker_that_crashes_or_fails_costs_the_exit_status_and_no_result(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_instead: Callable[[str], None]
) -> None:
    config = a_config(tmp_path)
    config.track.wandb = Wandb(mode="offline", project="p", entity=None)
    run_instead("os.abort()")
    crashed = track(results, settings(results, **BOTH), print)
    assert [sentence.split()[0] for sentence in crashed] == ["mlflow", "wandb"]
    assert all("its process ended with -6" in sentence for sentence in crashed)
    run_instead("sys.exit('no luck')")
    done = measuring.ComparisonOutcome(csv=results, failures=["a launch failed"])
    monkeypatch.setattr(measuring, "measure_comparison", lambda *_: done)
    before = results.read_bytes()
    first, second = program.measure_and_report(config, results.stem)
    assert first == "a launch failed"
    assert second.startswith(
        "wandb did not get the results (its process ended with 1: no luck), which are kept"
    )
    assert results.read_bytes() == before
    assert (tmp_path / "reports" / "index.md").exists()
