"""What is decided about jobs before they are submitted, and after."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cluster import jobs
from bench.config.compose import slurm_endpoint
from bench.errors import SweepIncomplete, UserError
from tests.support.configs import a_config

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]


FAKE = ROOT / "tests" / "support" / "fake_slurm"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["hydra/launcher=slurm"],
            r"would be ignored here; add --multirun, or call `make sweep LAUNCHER=slurm`",
        ),
        (["hydra/launcher=slurm", "-m"], r"needs SLURM's srun and sbatch, which are not found here"),
        (["hydra/launcher=local"], r"would be ignored here"),
    ],
)
def test_a_launcher_that_would_do_nothing_is_refused(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=sentence):
        jobs.check_launcher(["model=gpt2", *words])


def test_other_launchers_and_sweeps_are_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(FAKE))
    for words in (
        ["--multirun"],
        ["hydra/launcher=basic"],
        ["hydra/launcher=local", "-m"],
        ["hydra/launcher=slurm", "--multirun"],
        ["hydra.mode=MULTIRUN", "hydra/launcher=slurm"],
    ):
        jobs.check_launcher(words)


def test_the_nodes_of_a_job_meet_at_the_first_of_them() -> None:
    assert slurm_endpoint({}) is None


def test_nodes_are_found_in_slurm_s_own_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[07-09,12]")
    assert slurm_endpoint({"SLURM_JOB_ID": "1234567"}) == "gpu07:24567"


def test_outside_of_a_job_every_process_is_the_first() -> None:
    assert jobs.task_number({}) == 0


def test_a_job_of_another_number_of_tasks_than_nodes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Job:
        num_tasks = 2

    monkeypatch.setattr(jobs, "_job", Job)
    with pytest.raises(
        UserError, match=r"2 tasks cannot measure on device.nnodes=1; set hydra.launcher.nodes=1"
    ):
        jobs.serve_first_task(a_config(tmp_path))


def test_what_jobs_report_is_collected_from_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs.SweepReports, "folder", tmp_path)
    trouble: dict[str, Any] = {"refused": [], "failed": ["a row"], "bugs": []}
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "outcome.json").write_text(json.dumps(trouble))
    assert jobs.read_reports() == [trouble]


def test_a_job_that_dies_ends_the_sweep_in_a_sentence_and_errors_of_ours_keep_their_traceback() -> None:
    died = type("FailedJobError", (Exception,), {"__module__": "submitit.core.utils"})
    with (
        pytest.raises(SweepIncomplete, match="A job of the sweep failed: it died"),
        jobs.naming_failed_jobs(),
    ):
        raise died("it died\nTraceback …")
    with pytest.raises(KeyError), jobs.naming_failed_jobs():
        raise KeyError("ours")
