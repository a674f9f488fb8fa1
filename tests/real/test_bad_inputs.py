"""Mistakes in real commands, as typed: one sentence with the remedy, and nothing is written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.setup.checkout import ROOT

pytestmark = pytest.mark.once

GOOD = ROOT / "tests" / "golden" / "results" / "bert-tiny-cpux2.csv"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good, damaged and foreign results, and a user's own conf/."""
    made, good = tmp_path_factory.mktemp("bad"), GOOD.read_bytes()
    for place, content in {
        "good.csv": good,
        "damaged.csv": good[: good.index(b'"', good.index(b'"') + 1)],  # inside a quoted cell
        "foreign/bert-mini-cpux2.csv": b"city,population\nUlm,126000\n",
        "file": b"not a folder",
        "conf/model/broken.yaml": b"name: [\n",
    }.items():
        (made / place).parent.mkdir(parents=True, exist_ok=True)
        (made / place).write_bytes(content)
    return made


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("bench micro_batch=0", "micro_batch must be at least 1, not 0."),
        ("bench backend=[pytorch,jax]", "backend=jax does not exist; choose from: "),
        ("bench mirco_batch=4", "mirco_batch is not a key of the configuration; the top level has model"),
        ("bench micro_batch", "micro_batch is not an override; "),
        ("bench --multirun micro_batch=1,zero", "micro_batch must be a whole number, not zero."),
        ("bench results_dir=/proc/nowhere", "/proc/nowhere"),
        ("bench reports_dir=file", "file"),
        ("bench model.pretrained=./nowhere", "model.pretrained=./nowhere is not a folder"),
        ("bench hydra.searchpath=[file://conf] model=broken", "A configuration file is not valid YAML"),
        ("bench resume=true results_dir=foreign", "foreign/bert-mini-cpux2.csv"),
        ("bench.plugins.compare nowhere.csv good.csv", "nowhere.csv"),
        ("bench.plugins.compare damaged.csv good.csv", "damaged.csv is damaged: "),
        ("bench.report nowhere --out reports", "nowhere"),
    ],
)
def test_a_mistake_as_typed_ends_in_a_sentence(words: str, sentence: str, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.csv")}
    machine = ["device=cpu", "device.world_size=2"] if words.startswith("bench ") else []
    done = subprocess.run(
        [sys.executable, "-m", *words.split(), *machine],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*.csv")} == before
