"""A campaign of real comparisons that ends in time and is continued."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.setup.checkout import ROOT
from bench.sweeps.__main__ import LEFT_TO_MEASURE

LAUNCHES, ROUNDS = 5, 2


@pytest.mark.once
@pytest.mark.exhaustive
def test_two_real_comparisons_over_two_calls(tmp_path: Path) -> None:
    """The first call ends in the middle; what it leaves complete is in the second one's file, too."""
    (tmp_path / "campaign.yaml").write_text(
        f"""
skip_complete: true
common: [resume=true, 'hydra.searchpath=[file://{ROOT}/tests/conf]', device=cpu, device.world_size=1,
         measure=quick, measure.launches={LAUNCHES}, measure.rounds={ROUNDS}, measure.block_seconds=0.1,
         measure.repeats=0, measure.wait_s=0]
backends: {{ort: [pytorch, pytorch_fused], modern: [pytorch, pytorch_fused]}}
parts:
  - {{name: tiny, expected_s: 1, overrides: [], models: {{bert-for-tests: []}}}}
  - {{name: short, expected_s: 1, overrides: [seq_len=16], models: {{bert-for-tests: []}}}}
""",
        encoding="utf-8",
    )

    def call(*overrides: str) -> "subprocess.CompletedProcess[str]":
        places = [f"results_dir={tmp_path}/results", f"reports_dir={tmp_path}/reports"]
        command = [sys.executable, "-m", "bench.sweeps", f"{tmp_path}/campaign.yaml", *places, *overrides]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    first = call("minutes=0.8")  # enough for some launches of one comparison, on a slow machine for none
    assert first.returncode == LEFT_TO_MEASURE, first.stderr
    assert "keeps its complete rounds" in first.stderr
    kept = {path: lines(path) for path in (tmp_path / "results").rglob("*.csv") if "." not in path.stem}
    second = call()
    assert second.returncode in (0, 1), second.stderr  # 1: somebody else used the cores
    assert "2 of 2 comparisons are complete" in second.stdout
    for path, before in kept.items():
        lost = set(before) - set(lines(path))
        assert len(lost) <= 1, "a round that was not finished under both backends is dropped"


def lines(path: Path) -> list[str]:
    """Of a results file."""
    return path.read_text(encoding="utf-8").splitlines()
