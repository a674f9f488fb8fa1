"""Sweeps as jobs: through submitit itself, on this machine or under a SLURM that is played to it."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from bench.results import csv_files
from bench.setup.checkout import ROOT
from tests.support.cores import two_cores

pytestmark = pytest.mark.exhaustive

FAKE = ROOT / "tests" / "support" / "fake_slurm"

DISTURBED = "other processes had|the hypervisor took"
"""In the message of a block during which somebody else used the cores. Jobs start by themselves."""


def sweep(folder: Path, *overrides: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "bench",
                "device=cpu",
                "model=bert-tiny",
                "model.size=mini",
                "seq_len=16",
            ),
            *("backend=[pytorch]", "measure=quick", "measure.launches=1", "measure.rounds=1"),
            *(
                "measure.repeats=0",
                "measure.wait_s=0",
                f"results_dir={folder}/results",
                f"reports_dir={folder}/reports",
            ),
            *(*overrides, "--multirun"),
        ],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def assert_measured(done: "subprocess.CompletedProcess[str]", rows: pd.DataFrame, shown: str = "") -> None:
    disturbed = rows["message"].fillna("").astype(str).str.contains(DISTURBED)
    assert set(rows["status"][~disturbed]) <= {"ok"}, f"{done.stderr}\n{shown}"
    assert done.returncode == (1 if disturbed.any() else 0), f"{done.stderr}\n{shown}"


@pytest.mark.once
def test_a_point_runs_as_a_job_and_what_went_wrong_in_another_comes_back(tmp_path: Path) -> None:
    done = sweep(tmp_path, "hydra/launcher=local", "device.world_size=1,77")
    written = {path.stem[:-5]: path for path in csv_files.list_files(tmp_path / "results")}
    (name,) = written
    assert name == "bert-tiny-cpux1-mini-seq_len-16"
    assert set(pd.read_csv(written[name])["backend"]) == {"pytorch"}
    assert done.returncode == 2
    assert "device.world_size=77 and device.threads=1 need 77 cores" in done.stderr.splitlines()[-1]


@pytest.mark.once
@two_cores
def test_under_slurm_the_first_task_measures_and_the_other_serves_it(tmp_path: Path) -> None:
    done = sweep(
        tmp_path,
        *("hydra/launcher=slurm", "device.nnodes=2", "device.world_size=2", "hydra.launcher.partition=fast"),
        *("hydra.launcher.gpus_per_node=8", "hydra.launcher.timeout_min=30"),
        PATH=f"{FAKE}:{os.environ['PATH']}",
        FAKE_SLURM=str(tmp_path),
        BENCH_SECRET="a secret of sixteen or more",
    )
    tasks = [(tmp_path / f"task-{number}.txt").read_text() for number in (0, 1)]
    (written,) = csv_files.list_files(tmp_path / "results")
    assert_measured(done, pd.read_csv(written), "\n".join(tasks))
    assert "all nodes are there: node 1" in tasks[0]
    assert "serving localhost:24711" in tasks[1]
    script = (tmp_path / "script.sh").read_text()
    for line in (
        *("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8", "--partition=fast", "--time=30"),
        *("--exclusive", "--cpus-per-task=16", "--job-name=bench"),
    ):
        assert f"#SBATCH {line}\n" in script
    assert "secret" not in script
