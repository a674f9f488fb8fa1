"""Interruptions at fixed moments; interruptions.py makes many at random ones."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.support.interruptions import (
    ROOT,
    SECONDS_TO_END,
    Plan,
    family,
    interrupt,
    last_line,
    resume,
    rounds_in,
    seconds_until_gone,
    sockets,
    start,
    wait_for,
)

pytestmark = [
    pytest.mark.once,
    pytest.mark.timeout(300),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks need two cores of their own"),
]

# One rank for each backend: test_failures.py kills one of two, interruptions.py does so at random moments.
PLAN = Plan(backends=("pytorch", "pytorch_again"), launches=1, rounds=3, world_size=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path


@pytest.mark.long
def test_a_comparison_that_is_interrupted_again_and_again_goes_on_where_it_was(folder: Path) -> None:
    again = "resume=true"
    found = [
        interrupt(PLAN, folder, "coordinator", "parity of", signal.SIGINT),
        # Of the reference, which is started first: without it the run ends at once.
        interrupt(PLAN, folder, "agent", "parity of", signal.SIGKILL, again, choose=min),
        interrupt(PLAN, folder, "rank", "round 2/3", signal.SIGKILL, again),
        interrupt(PLAN, folder, "coordinator", "round 2/3", signal.SIGKILL, again),
    ]
    assert [one.status for one in found] == [130, 1, 1, -9]
    rounds = [rounds_in(one.before) for one in found]
    assert rounds == sorted(rounds), "what is complete stays"
    assert rounds[0] == 0
    assert rounds[-1] > 0
    before = pd.concat([one.before for one in found]).drop_duplicates()
    assert resume(PLAN, folder, before) >= PLAN.launches * PLAN.rounds


@pytest.mark.timeout(600)
def test_ctrl_c_in_the_profiles_ends_with_0_and_why_adds_them_without_measuring_anew(folder: Path) -> None:
    # A model of conf/, since `bench.why` is told of no other folder.
    small = ("model=bert-tiny", "model.size=mini", "micro_batch=1", "seq_len=8", "measure.explain=true")
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
    forked = ("tests.support.on_any_machine", "--forked")
    why = [sys.executable, "-m", *forked, "bench.why", str(results)]
    done = subprocess.run([*why, f"reports_dir={folder}/reports"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, results.read_bytes()) == (0, before), done.stderr
    assert breakdown.exists()
    assert "profiled step:" in page.read_text()
    assert "parity of" in done.stderr
    assert "launch 1/1" not in done.stderr


def test_a_second_run_of_the_same_comparison_says_so_and_leaves(folder: Path) -> None:
    first = start(PLAN, folder)
    try:
        wait_for("parity of", folder / "said.txt", first)
        (folder / "second" / "tmp").mkdir(parents=True)
        second = start(PLAN, folder / "second", f"results_dir={folder}/results")
        assert second.wait(30) == 2
        assert "is being measured by another process" in last_line(folder / "second" / "said.txt")
        assert first.poll() is None
    finally:
        everybody = family(first.pid)
        first.terminate()
        assert first.wait(30) == 143
    assert seconds_until_gone(everybody) < SECONDS_TO_END
    assert not sockets(first.pid)
