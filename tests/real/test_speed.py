"""Reporting has to stay quick when results grow: 200 models under 6 backends, 30 rounds each."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bench.results import csv_files
from tests.support.calibration import slowness
from tests.support.factories import comparison, with_environment, workload

ROOT = Path(__file__).parents[2]

SECONDS = {
    "pytorch": 2.0,
    "pytorch_fused": 1.9,
    "pytorch_zero1": 2.1,
    "ortmodule_adamw": 1.8,
    "ortmodule": 1.6,
    "ortmodule_zero1": 1.7,
}
"""Of a block of each backend."""

MODELS = 200


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder of results files: 5 launches of 6 rounds each, with an environment of a real one's size."""
    noise = np.random.default_rng(7)
    records = comparison(
        {name: (s * np.exp(noise.normal(0, 0.01, (5, 6)))).tolist() for name, s in SECONDS.items()},
        workload=workload(model="MODEL"),
    )
    records = with_environment(records, variables={f"VARIABLE_{n}": "x" * 20 for n in range(30)})
    folder = tmp_path / "results"
    csv_files.write_records(folder / "MODEL.csv", records)
    text = (folder / "MODEL.csv").read_text(encoding="utf-8")
    (folder / "MODEL.csv").unlink()
    for number in range(MODELS):
        name = f"model-{number}"
        (folder / f"{name}-cpux2.csv").write_text(text.replace("MODEL", name), encoding="utf-8")
    return folder


@pytest.mark.long
@pytest.mark.once
@pytest.mark.alone
@pytest.mark.quiet
def test_two_hundred_models_are_reported_in_ten_seconds(many: Path, tmp_path: Path) -> None:
    """On two cores of the machine that README names, while nobody slows it down."""
    command = [sys.executable, "-m", "bench.report", str(many), "--out", str(tmp_path / "reports")]
    seconds: list[float] = []
    while not seconds or (min(seconds) >= 10 and len(seconds) < 3):  # the quickest: other work may run
        before, began = slowness(), time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        took = time.monotonic() - began
        seconds.append(took / max(before, slowness()))
        assert done.returncode == 0, done.stderr
    print(f"took {seconds} s at full speed")
    page = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert page.count("<tr data-device=") == MODELS * len(SECONDS)
    assert "200 of 200" in page, "every backend's mean is over all models"
    assert len(list((tmp_path / "reports").glob("model-*.md"))) == MODELS
    assert "speedup: drawn for the first 64 of 200 comparisons" in page
    assert (
        min(seconds) < 12.5
    )  # ten on a quiet machine; this one swings by a quarter, which no loop foretells
