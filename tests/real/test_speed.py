"""Reporting has to stay quick when results grow: up to 200 models under 6 backends, 30 rounds each."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bench.results import csv_files
from bench.setup.checkout import ROOT
from tests.support.factories import comparison, with_environment, workload
from tests.support.result_files import write_records

pytestmark = [pytest.mark.once, pytest.mark.time]

SECONDS = {
    "pytorch": 2.0,
    "pytorch_fused": 1.9,
    "pytorch_zero1": 2.1,
    "ortmodule_adamw": 1.8,
    "ortmodule": 1.6,
    "ortmodule_zero1": 1.7,
}
"""Of a block of each backend."""

FEW, MANY = 64, 200
"""Models. Figures show no more than the first few, so that only reading and tables grow between the two."""


def write_results(folder: Path, models: int) -> Path:
    """Make a folder of results files: 5 launches of 6 rounds each, an environment of a real one's size."""
    noise = np.random.default_rng(7)
    records = comparison(
        {name: (s * np.exp(noise.normal(0, 0.01, (5, 6)))).tolist() for name, s in SECONDS.items()},
        workload=workload(model="MODEL"),
    )
    records = with_environment(records, variables={f"VARIABLE_{n}": "x" * 20 for n in range(30)})
    write_records(folder / "MODEL.csv", records)
    text = (folder / "MODEL.csv").read_text(encoding="utf-8")
    (folder / "MODEL.csv").unlink()
    for number in range(models):
        name = f"model-{number}"
        (folder / f"{name}-cpux2.csv").write_text(text.replace("MODEL", name), encoding="utf-8")
    return folder


def report(results: Path, out: Path) -> float:
    """Run the command as a user does; seconds that it took of all cores."""
    command = [sys.executable, "-m", "bench.report", str(results), "--out", str(out)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_report_takes_so_many_times_as_long_as_reading_and_no_more_for_each_model_the_more_there_are(
    tmp_path: Path,
) -> None:
    """7 to 9 times as long on an AMD EPYC of family 25, model 17: a ratio suits any CPU."""
    results = write_results(tmp_path / "many", MANY)
    began = time.process_time()
    for path in csv_files.list_files(results):
        csv_files.read(path)
    read_s = time.process_time() - began
    few_s = report(write_results(tmp_path / "few", FEW), tmp_path / "reports-few")
    many_s = report(results, tmp_path / "reports")
    print(f"{FEW} models took {few_s:.1f} s, {MANY} models {many_s:.1f} s, reading them {read_s:.1f} s")
    assert many_s < 12 * read_s
    # 2.2 where each model takes the same, 2.7 if the last takes nearly twice as long as the first
    assert many_s < 2.7 * few_s
    page = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert f"{MANY} of {MANY}" in page, "every backend's mean is over all models"
    text = (tmp_path / "reports" / "index.md").read_text(encoding="utf-8")
    assert text.count('<a id="model-') == MANY
    for backend in SECONDS:
        assert text.count(f"\n| {backend} | ") == MANY, "a row in each comparison's table"
    assert f"speedup: drawn for the first {FEW} of {MANY} comparisons" in page
