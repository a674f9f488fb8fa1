"""Ctrl-C while backends are profiled, with real processes."""

import signal
from pathlib import Path

import pytest

from tests.support.cores import two_cores
from tests.support.interruptions import Plan, command, interrupt, rounds_in
from tests.support.python import run_python

pytestmark = [pytest.mark.once, two_cores]


def test_ctrl_c_in_the_profiles_ends_with_0_and_resuming_adds_them(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "tmp").mkdir()
    small = ("micro_batch=1", "seq_len=8", "measure.explain=true")
    plan = Plan(backends=("pytorch",), launches=1, rounds=2, world_size=1)
    ended = interrupt(plan, folder, "coordinator", "untimed: pytorch, set-up", signal.SIGINT, *small)
    assert ended.status == 0
    said = (folder / "said.txt").read_text()
    assert said.index(" until the verdict, then about ") < said.index("Why follows in about ")
    assert "interrupted" not in said
    assert rounds_in(ended.before) == plan.rounds
    (results,) = (path for path in (folder / "results").glob("*.csv") if "." not in path.stem)
    breakdown, page = results.with_suffix(".breakdown.csv"), folder / "reports" / "index.md"
    assert not breakdown.exists()
    assert "profiled step:" not in page.read_text()
    before = results.read_bytes()
    done = run_python(*command(plan, folder, *small, "resume=true")[1:])
    assert (done.returncode, results.read_bytes()) == (0, before), done.stderr
    assert breakdown.exists()
    assert "profiled step:" in page.read_text()
    assert "parity of" in done.stderr
    assert "launch 1/1" not in done.stderr
