"""A campaign of real comparisons that ends in time and is continued."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.results import csv_files
from bench.sweeps.__main__ import LEFT_TO_MEASURE
from tests.support import quiet

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.once
@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_two_real_comparisons_over_two_calls(tmp_path: Path) -> None:
    """The first ends in the middle; what it leaves complete is in the second one's file, too.

    Its 52 s are enough for a launch where all takes twice as long as on two cores of an Intel VM (family 6,
    model 207), and not for both comparisons where it takes half as long.
    """
    (tmp_path / "campaign.yaml").write_text(
        f"""
skip_complete: true
common: [resume=true, 'hydra.searchpath=[file://{ROOT}/tests/conf]', device=cpu, device.world_size=1,
         measure=quick, measure.launches=5, measure.rounds=2, measure.block_seconds=0.1, measure.repeats=0]
backends: {{ort: [pytorch, pytorch_fused], modern: [pytorch, pytorch_fused]}}
parts:
  - {{name: tiny, expected_s: 1, overrides: [], models: {{bert-for-tests: []}}}}
  - {{name: short, expected_s: 1, overrides: [seq_len=16], models: {{bert-for-tests: []}}}}
""",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "bench.sweeps", f"{tmp_path}/campaign.yaml"]
    command += [f"results_dir={tmp_path}/results", f"reports_dir={tmp_path}/reports"]
    begun, others = time.monotonic(), quiet.Others()
    first = subprocess.run([*command, "minutes=1.2"], cwd=ROOT, capture_output=True, text=True, check=False)
    took = time.monotonic() - begun
    if took >= 72 or not list((tmp_path / "results").glob("*.csv")):
        others.skip_if_busy()
    assert took < 72
    assert first.returncode == LEFT_TO_MEASURE, first.stderr
    assert "keeps its complete rounds" in first.stderr
    kept = {path: lines(path) for path in csv_files.list_files(tmp_path / "results")}
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert second.returncode in (0, 1), second.stderr  # 1: somebody else used the cores
    assert "2 of 2 comparisons are complete" in second.stdout
    for path, before in kept.items():
        lost = set(before) - set(lines(path))
        assert len(lost) <= 1, "a round that was not finished under both backends is dropped"
    for path in csv_files.list_files(tmp_path / "results"):
        rows = csv_files.read(path)
        counts = rows[rows["round"].notna()].groupby("backend")["round"].count()
        if counts.min() < 5 * 2:
            others.skip_if_busy()  # a comparison ends early where other processes keep the cores
        assert counts.min() >= 5 * 2


def lines(path: Path) -> list[str]:
    """Of a results file."""
    return path.read_text(encoding="utf-8").splitlines()
