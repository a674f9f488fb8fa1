"""A comparison that is interrupted goes on where it was, and leaves nothing behind."""

import signal
from pathlib import Path

import pandas as pd
import pytest

from tests.support.cores import two_cores
from tests.support.interruptions import (
    Plan,
    family,
    interrupt,
    last_line,
    resume,
    rounds_in,
    sockets,
    start,
    wait_for,
    wait_until_gone,
)

pytestmark = [pytest.mark.once, two_cores]

# Enough rounds to be interrupted in the midst of them, however late the signal comes. One rank for each
# backend: test_failures.py kills one of two.
PLAN = Plan(backends=("pytorch", "pytorch_again"), launches=1, rounds=16, world_size=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return tmp_path


def test_after_ctrl_c_the_same_command_goes_on_and_nothing_is_lost_or_left(folder: Path) -> None:
    ended = interrupt(PLAN, folder, "coordinator", "round 2/16", signal.SIGINT)
    assert ended.status == 130
    assert rounds_in(ended.before) > 0
    assert resume(PLAN, folder, ended.before) >= PLAN.launches * PLAN.rounds


@pytest.mark.exhaustive
def test_a_comparison_that_is_killed_again_and_again_goes_on_where_it_was(folder: Path) -> None:
    again = "resume=true"
    found = [
        # Of the reference, which is started first: without it the run ends at once.
        interrupt(PLAN, folder, "agent", "parity of", signal.SIGKILL, choose=min),
        interrupt(PLAN, folder, "coordinator", "round 6/16", signal.SIGKILL, again),
    ]
    assert [one.status for one in found] == [1, -9]
    rounds = [rounds_in(one.before) for one in found]
    assert rounds == sorted(rounds), "what is complete stays"
    assert rounds[0] == 0
    assert rounds[-1] > 0
    before = pd.concat([one.before for one in found]).drop_duplicates()
    assert resume(PLAN, folder, before) >= PLAN.launches * PLAN.rounds


@pytest.mark.exhaustive
def test_a_second_run_of_the_same_comparison_says_so_and_leaves(folder: Path) -> None:
    first = start(PLAN, folder)
    try:
        wait_for("parity of", folder / "said.txt", first)
        (folder / "second" / "tmp").mkdir(parents=True)
        second = start(PLAN, folder / "second", f"results_dir={folder}/results")
        assert second.wait() == 2
        assert "is being measured by another process" in last_line(folder / "second" / "said.txt")
        assert first.poll() is None
    finally:
        everybody = family(first.pid)
        first.terminate()
        assert first.wait() == 143
    wait_until_gone(everybody)
    assert not sockets(first.pid)
