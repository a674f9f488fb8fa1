"""The way to a target, with groups that take no time: what is asked for when, and what is written."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.studies.converge.table import TABLE
from tests.studies.converge import fakes  # noqa: F401 - answers for ranks
from tests.support.comparisons import Resumable, Simulated
from tests.support.configs import BACKENDS
from tests.support.fakes import FakeGroup, Script

pytestmark = pytest.mark.usefixtures("two_cores")

FOLLOWED: dict[str, Any] = {"evaluate_every": 5, "target_loss": 2.5, "margin_loss": 0.05, "repeats": 0}

STEPS = [0, 13, 18, 23]
"""At each evaluation: two first steps, three warm-ups of two steps, then blocks of five."""


def losses_of(folder: Path) -> pd.DataFrame:
    return TABLE.read(folder / "results" / "m-cpux2.converge.csv")


@pytest.mark.parametrize("settled", [True, False])
def test_every_backend_has_taken_the_same_steps_at_every_evaluation(tmp_path: Path, settled: bool) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"settled": settled}}, **FOLLOWED)
    assert run.failures == []
    table = losses_of(tmp_path)
    for _, one in table.groupby(["backend", "launch"]):
        assert one["evaluation"].tolist() == [0, 1, 2, 3]
        assert one["steps"].tolist() == STEPS
    assert len(table) == len(BACKENDS) * 2 * 4
    assert {row["steps"] for row in run.rows} == {"5"}, "blocks have the steps that were asked for"
    # The loss is a mean over all that any rank predicted.
    assert table["held_out_loss"].tolist() == pytest.approx([4 - steps / 10 for steps in table["steps"]])
    assert (set(table["target_loss"]), set(table["margin_loss"]), set(table["disturbed"])) == (
        {2.5},
        {0.05},
        {0},
    )
    timed = {group.spec.seed: group.launch for group in run.groups if group.launch}
    assert timed == {2: 1, 4: 2}, "two ranks have the seeds 2 and 3 of the first, 4 and 5 of the second"
    assert {group.spec.seed for group in run.groups if not group.launch} == {0}
    assert set(zip(table["launch"], table["seed"], strict=True)) == {(1, 2), (2, 4)}
    if settled:  # seconds are those of the slowest rank in the blocks, and the start is apart
        mine = table[(table["backend"] == "ortmodule") & (table["launch"] == 1)]
        trained = np.array([0, 5, 10, 15]) * 0.404
        assert mine["seconds"].tolist() == pytest.approx(trained)
        start = np.array([0, 8, 8, 8]) * 0.404  # first step and warm-up, after 6 s of set-up
        assert mine["seconds_with_start"].tolist() == pytest.approx(6.0 + start + trained)


def test_without_a_target_nobody_is_asked_and_all_launches_have_one_seed(tmp_path: Path) -> None:
    run = Simulated(tmp_path)
    assert not any("evaluate" in group.counts for group in run.groups)
    assert {group.spec.seed for group in run.groups} == {0}
    assert not (tmp_path / "results" / "m-cpux2.converge.csv").exists()


def test_a_disturbed_block_is_not_trained_again_and_said_to_be_one(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"disturbed": {(1, 5): 0.5}}}, **FOLLOWED)
    table = losses_of(tmp_path)
    disturbed = table[table["disturbed"] == 1]
    assert [tuple(row) for row in disturbed[["backend", "launch", "evaluation"]].to_numpy()] == [
        ("ortmodule", 1, 1)
    ]
    assert table["steps"].max() == STEPS[-1]
    assert [row["status"] for row in run.of("ortmodule")].count("invalid") == 1


def test_a_launch_that_failed_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    crash = ("crashed", "gone", "")
    run = Simulated(tmp_path, {"ortmodule": {"fails": {("evaluate", 1, 3): crash}}}, **FOLLOWED)
    table = losses_of(tmp_path)
    assert set(table[table["backend"] == "ortmodule"]["launch"]) == {2}
    assert set(table[table["backend"] == "pytorch"]["launch"]) == {1, 2}
    assert any("gone" in line for line in run.failures)


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ({"held_out": lambda steps: math.nan if steps > 15 else 3.0}, "diverged", "is nan after 18 steps"),
        ({"extra_steps": 1}, "invalid", "it is evaluated after 1 steps, and pytorch was after 0"),
    ],
)
def test_a_loss_that_is_no_number_or_after_other_steps_ends_the_launch(
    tmp_path: Path, script: Script, status: str, words: str
) -> None:
    run = Simulated(tmp_path, {"ortmodule": script}, **FOLLOWED)
    failed = [row for row in run.of("ortmodule") if not row["round"]]
    assert {row["status"] for row in failed} == {status}
    assert words in failed[0]["message"]


def test_what_is_resumed_keeps_whole_launches_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = FakeGroup._answer

    def answer(self: FakeGroup, request: object, rank: int) -> Any:
        if self.launch == 2 and self.counts.get("evaluate", 0) > 2:
            raise KeyboardInterrupt
        return original(self, request, rank)

    with monkeypatch.context() as patch:
        patch.setattr(FakeGroup, "_answer", answer)
        with pytest.raises(KeyboardInterrupt):
            Resumable(tmp_path, measure=FOLLOWED)
    assert set(losses_of(tmp_path)["launch"]) == {1, 2}
    Resumable(tmp_path, measure=FOLLOWED, resume=True)
    table = losses_of(tmp_path)
    counts = table.groupby(["backend", "launch"]).size()
    assert set(table["launch"]) == {1, 3}
    assert set(counts) == {4}
    assert table[table["launch"] == 3]["seed"].unique().tolist() == [6]
