"""The Python interface, by its example in docs."""

import runpy
import sys
from pathlib import Path

import pytest

from bench.api import read
from bench.setup.checkout import ROOT

SHORT = ("launches=1", "rounds=2", "block_seconds=0.05", "preheat_s=0", "explain=false")
DEVICE = ("device=cpu", "device.world_size=1", "device.threads=1")


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.usefixtures("forked")
def test_the_example_measures_and_its_result_is_the_file_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["model=bert-tiny", "model.size=mini", "seq_len=8", "micro_batch=1", "measure=quick", *DEVICE]
    words += [*(f"measure.{word}" for word in SHORT), "backend=[pytorch,pytorch_fused]"]
    monkeypatch.setattr(sys, "argv", ["measure.py", *words, f"results_dir={tmp_path}"])
    result = runpy.run_path(str(ROOT / "docs" / "examples" / "measure.py"))["result"]
    assert [backend.backend for backend in result.backends] == ["pytorch", "pytorch_fused"]
    assert len(result.rows) == 4
    assert result.csv.parent == tmp_path
    again = read(result.csv)
    assert again.backends == result.backends
    speedup = again["pytorch_fused"].speedup
    assert speedup is not None
    assert f"pytorch_fused: {speedup.ratio:.3f}, {again['pytorch_fused'].verdict}" in capsys.readouterr().out
