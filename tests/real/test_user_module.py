"""The two examples of a user's module, from the command line to figures, on both stacks."""

from pathlib import Path

import pytest

from bench.setup import stacks
from bench.setup.checkout import ROOT
from tests.support.commands import Ran, bench
from tests.support.cores import two_cores
from tests.support.pages import commands

ZERO1 = "pytorch_zero1" if stacks.own() == "modern" else "ortmodule_zero1"
TIMED = ("pytorch", "pytorch_best", ZERO1)
TWO_RANKS = ("pytorch", ZERO1) if stacks.own() == "modern" else ("pytorch", "ortmodule", ZERO1)
PARTS = "pytorch_accumulation"

pytestmark = two_cores


def run(folder: Path, example: str, *overrides: str) -> Ran:
    """Run the command from the examples' folder, so that the module is found from there."""
    words = (f"model.module={example}", "measure.wait_s=0", "micro_batch=4", *overrides)
    return bench(folder, *words, cwd=ROOT / "docs" / "examples", variables={"PYTHONPATH": str(ROOT)})


def test_every_backend_trains_and_times_a_gpt_of_one_file(tmp_path: Path) -> None:
    done, rows = run(
        tmp_path,
        *("own_gpt.py:OwnGPT", "+model.config.width=32", "+model.config.layers=2", "seq_len=16"),
        *("device.world_size=1", "measure=quick", "measure.launches=1", "measure.rounds=1"),
        *("measure.block_seconds=0.05", f"backend=[{','.join(TIMED)}]"),
    )
    assert done.returncode == 0, done.stderr
    assert {*rows["backend"]} == {*TIMED}
    assert {*rows["status"]} == {"ok"}
    assert ({*rows["model"]}, {*rows["task"]}, {*rows["attention"]}) == ({"own-gpt"}, {"own"}, {"eager"})
    assert {*rows["data"]} == {"example_batch"}, "it makes its own batches"
    assert rows["lengths"].isna().all()
    assert (rows["model_flops_per_step"] > 0).all()
    assert rows["loss_difference"].max() < 1e-5
    assert rows.groupby("backend")["optimizer"].first()["pytorch_best"] == "adamw_fused"
    for name in ("index.html", "speedup.svg", "memory.svg"):
        page = (tmp_path / "reports" / name).read_text(encoding="utf-8")
        assert all(backend in page for backend in TIMED), name


@pytest.mark.exhaustive
@pytest.mark.once
def test_two_ranks_agree_on_a_batch_norm_but_not_on_one_over_parts_of_a_micro_batch(tmp_path: Path) -> None:
    """Each rank normalises over its own micro-batches under every backend, as the reference does."""
    done, rows = run(
        tmp_path,
        *("own_convnet.py:ConvNet", "+model.config.width=8", "grad_accum=2", "device.world_size=2"),
        *("measure=parity", f"backend=[{','.join((*TWO_RANKS, PARTS))}]"),
    )
    assert done.returncode == 1, done.stderr
    by_name = rows.set_index("backend")
    assert dict(by_name["status"]) == dict.fromkeys(TWO_RANKS, "untimed") | {PARTS: "unsupported"}
    assert "normalises over a whole micro-batch" in by_name["message"][PARTS]
    assert by_name["loss_difference"].max() < 1e-5


@pytest.mark.exhaustive
@pytest.mark.once
def test_the_tutorial_s_last_comparison_runs(tmp_path: Path) -> None:
    """Its others differ by what the first test, and tests/unit/test_resume.py, show of any model."""
    command = [command for command in commands("docs/tutorial.md") if command.target == "bench"][-1]
    words = [word for word in command.variables["ARGS"].split() if not word.startswith("model.module=")]
    done, rows = run(
        tmp_path,
        *("own_gpt.py:OwnGPT", "+model.config.width=32", "+model.config.layers=2", "seq_len=16", *words),
        *("measure=quick", "measure.launches=1", "measure.rounds=1", "measure.block_seconds=0.05"),
        "device.world_size=1",
    )
    assert done.returncode == 0, done.stderr
    assert {*rows["status"]} == {"ok"}
