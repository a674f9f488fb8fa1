"""Ctrl-C while backends are profiled, with real processes."""

import signal
from pathlib import Path

import pytest

from tests.support.cores import two_cores
from tests.support.interruptions import Plan, interrupt, rounds_in

pytestmark = [pytest.mark.once, two_cores]


def test_ctrl_c_in_the_profiles_ends_with_0_and_keeps_the_verdict(tmp_path: Path) -> None:
    """That resuming adds them: tests/studies/explain/test_why.py."""
    (tmp_path / "tmp").mkdir()
    small = ("micro_batch=1", "seq_len=8", "measure.explain=true")
    plan = Plan(backends=("pytorch",), launches=1, rounds=2, world_size=1)
    ended = interrupt(plan, tmp_path, "coordinator", "untimed: pytorch, set-up", signal.SIGINT, *small)
    assert ended.status == 0
    said = (tmp_path / "said.txt").read_text()
    assert said.index(" until the verdict, then about ") < said.index("Why follows in about ")
    assert "interrupted" not in said
    assert rounds_in(ended.before) == plan.rounds
    (results,) = (path for path in (tmp_path / "results").glob("*.csv") if "." not in path.stem)
    breakdown, page = results.with_suffix(".breakdown.csv"), tmp_path / "reports" / "index.md"
    assert not breakdown.exists()
    assert "profiled step:" not in page.read_text()
