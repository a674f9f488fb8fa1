"""Going on with an interrupted comparison: what is kept, what is measured again, what is refused."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.config.data import Data
from bench.errors import UserError
from bench.machine import environment
from bench.measure.comparison import locked
from tests.support.comparisons import Resumable, rows_of
from tests.support.configs import BACKENDS, a_model
from tests.support.fakes import FakeGroup, Script

pytestmark = pytest.mark.usefixtures("two_cores")

CRASH = ("crashed", "rank 1 was killed by SIGKILL during block", "")


def interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, times: int, call: str = "_block", **settings: Any
) -> list[dict[str, str]]:
    """A run that ends after so many blocks of a rank, or other calls of groups; the rows that it leaves."""
    count = Counter[str]()
    original = getattr(FakeGroup, call)

    def counted(self: FakeGroup, *arguments: Any) -> Any:
        count[call] += 1
        if count[call] > times:
            raise KeyboardInterrupt
        return original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(FakeGroup, call, counted)
        with pytest.raises(KeyboardInterrupt):
            Resumable(folder, **settings)
    return rows_of(folder)


def keys(rows: list[dict[str, str]]) -> Counter[tuple[str, str, str]]:
    return Counter((row["backend"], row["launch"], row["round"]) for row in rows)


def test_the_rounds_before_an_interruption_stay_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interrupted(tmp_path, monkeypatch, 68)  # in the second launch
    assert {row["status"] for row in before} == {"ok"}
    rounds = Counter((row["launch"], row["round"]) for row in before)
    assert set(rounds.values()) == {len(BACKENDS)}, "complete ones alone"
    run = Resumable(tmp_path, {name: {"step_seconds": 0.7} for name in BACKENDS}, resume=True)
    assert run.rows[: len(before)] == before
    assert set(keys(run.rows).values()) == {1}
    for backend in BACKENDS:
        assert len([row for row in run.rows if row["backend"] == backend]) >= 2 * 3
    new = run.rows[len(before) :]
    assert {row["launch"] for row in new} == {str(1 + max(int(row["launch"]) for row in before))}
    assert {row["steps"] for row in new} == {row["steps"] for row in before}, "blocks of the same length"
    assert run.failures == []
    assert "rounds kept: " in run.printed[0]


def test_a_complete_comparison_starts_nothing(tmp_path: Path) -> None:
    before = Resumable(tmp_path).rows
    run = Resumable(tmp_path, resume=True)
    assert run.groups == []
    assert run.rows == before
    assert run.printed[-1] == "nothing is missing"


def test_without_a_file_everything_is_measured(tmp_path: Path) -> None:
    run = Resumable(tmp_path, resume=True)
    assert len(run.rows) == 3 * 2 * 3
    assert "from the start" in run.printed[0]


def test_without_resume_the_file_is_replaced(tmp_path: Path) -> None:
    first = Resumable(tmp_path).rows
    second = Resumable(tmp_path, {"pytorch": {"step_seconds": 0.7}}).rows
    assert keys(first) == keys(second)
    assert first != second


def test_a_crashed_launch_is_made_again_and_its_row_goes(tmp_path: Path) -> None:
    crashed = Resumable(tmp_path, {"ortmodule": {"fails": {("block", 2, 5): CRASH}}})
    assert len(crashed.failures) == 1
    run = Resumable(tmp_path, resume=True)
    assert run.failures == []
    assert {row["status"] for row in run.rows} == {"ok"}
    before = [row for row in crashed.rows if row["round"]]
    assert run.rows[: len(before)] == before
    new = keys(run.rows[len(before) :])
    assert set(new) == {(backend, "3", str(number)) for backend in BACKENDS for number in (1, 2, 3)}


@pytest.mark.parametrize("status", ["oom", "crashed"])
def test_a_backend_that_fails_again_costs_the_others_nothing(tmp_path: Path, status: str) -> None:
    failing: dict[str, Script] = {"ortmodule": {"fails": {("build", 0, 1): (status, "again", "")}}}
    before = Resumable(tmp_path, failing)
    run = Resumable(tmp_path, failing, resume=True)
    assert [group.launch for group in run.groups] == [0, 0, 0], "tried, and nothing else"
    assert keys(run.rows) == keys(before.rows)
    assert [row for row in run.rows if row["round"]] == [row for row in before.rows if row["round"]]
    assert run.failures == before.failures


def test_a_crash_is_tried_again_even_if_no_round_is_missing(tmp_path: Path) -> None:
    measure = {"target_half_width": 0.001, "max_launches": 4}
    changes: dict[str, Script] = {"ortmodule": {"launches": {1: 1.05}, "fails": {("block", 4, 5): CRASH}}}
    crashed = Resumable(tmp_path, changes, measure=measure)
    assert len(crashed.failures) == 1
    assert len([row for row in crashed.rows if row["backend"] == "ortmodule" and row["round"]]) > 2 * 3
    run = Resumable(tmp_path, {"ortmodule": {"launches": {1: 1.05}}}, measure=measure, resume=True)
    assert run.failures == []
    assert {row["status"] for row in run.rows} == {"ok"}
    assert {row["launch"] for row in run.rows if row["backend"] == "ortmodule"} >= {"5"}


def test_a_failure_stays_on_file_until_it_has_been_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Resumable(tmp_path, {"pytorch": {"fails": {("build", 0, 1): CRASH}}})
    assert {row["status"] for row in failed.rows} == {"crashed", "skipped"}
    assert interrupted(tmp_path, monkeypatch, 0, resume=True) == failed.rows
    run = Resumable(tmp_path, resume=True)
    assert run.failures == []
    assert len(run.rows) == 3 * 2 * 3


def test_a_new_run_that_was_interrupted_does_not_go_on_from_an_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = Resumable(tmp_path).rows
    assert interrupted(tmp_path, monkeypatch, 0) == older, "it stays until there is something new"
    assert interrupted(tmp_path, monkeypatch, 0, resume=True) == older
    run = Resumable(tmp_path, {name: {"step_seconds": 0.7} for name in BACKENDS}, resume=True)
    assert "from the start" in run.printed[0]
    assert keys(run.rows) == keys(older)
    assert not [row for row in run.rows if row in older]
    assert Resumable(tmp_path, resume=True).rows == run.rows


def test_weights_that_a_killed_run_has_left_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "results" / "runs" / "m-cpux2" / "earlier" / "initial.safetensors"
    left.parent.mkdir(parents=True)
    left.touch()
    Resumable(tmp_path)
    assert not left.exists()


def test_blocks_without_the_reference_have_no_partner_and_go(tmp_path: Path) -> None:
    crashed = Resumable(tmp_path, {"pytorch": {"fails": {("block", 2, 3): CRASH}}})
    assert ("ortmodule", "2", "3") in keys(crashed.rows)
    run = Resumable(tmp_path, resume=True)
    assert ("ortmodule", "2", "3") not in keys(run.rows)
    assert run.failures == []


def test_an_interrupted_run_can_be_interrupted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = interrupted(tmp_path, monkeypatch, 68)
    second = interrupted(tmp_path, monkeypatch, 26, resume=True)
    assert second[: len(first)] == first
    run = Resumable(tmp_path, resume=True)
    assert run.rows[: len(second)] == second
    assert set(keys(run.rows).values()) == {1}


def test_with_one_resident_group_what_has_no_partner_yet_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"schedule": "sequential"}
    before = interrupted(tmp_path, monkeypatch, 30, measure=one)
    run = Resumable(tmp_path, resume=True, measure=one)
    assert [row for row in run.rows if row in before] == before
    for backend in BACKENDS:
        assert len([row for row in run.rows if row["backend"] == backend]) >= 2 * 3


def test_what_is_unsupported_stays_so_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsupported = {"ortmodule": {"fails": {("build", 0, 1): ("unsupported", "no such operator", "")}}}
    before = Resumable(tmp_path, unsupported)
    run = Resumable(tmp_path, resume=True)
    assert run.groups == []
    assert run.rows == before.rows
    assert run.failures == before.failures != []
    assert "not tried again: ortmodule" in run.printed[0]


def test_parity_alone_that_is_complete_is_not_made_again(tmp_path: Path) -> None:
    Resumable(tmp_path, {"ortmodule": {"loss": 2.1}}, measure={"launches": 0})
    again = Resumable(tmp_path, measure={"launches": 0}, resume=True)
    assert again.groups == []
    assert [row["status"] for row in again.rows] == ["untimed", "diverged", "untimed"]


def test_parity_alone_is_made_again_as_a_whole_where_a_backend_broke(tmp_path: Path) -> None:
    Resumable(tmp_path, {"ortmodule": {"fails": {("build", 0, 1): CRASH}}}, measure={"launches": 0})
    again = Resumable(tmp_path, measure={"launches": 0}, resume=True)
    assert [row["status"] for row in again.rows] == ["untimed"] * 3


@pytest.mark.parametrize(
    ("settings", "differing"),
    [
        ({"seed": 7}, "seed: by default, now 7"),
        ({"measure": {"rounds": 4, "launches": 5}}, r"measure\.rounds: 3, now 4"),
        (
            {"measure": {"parity_steps": 6, "margin": 0.05}},
            r".*measure\.margin: by default, now 0\.05; measure\.par",
        ),
    ],
)
def test_another_setting_is_refused_with_both_values_and_the_file_stays(
    tmp_path: Path, settings: dict[str, Any], differing: str
) -> None:
    before = Resumable(tmp_path).rows
    shutil.rmtree(tmp_path / "results" / "runs")  # the results file alone says it
    with pytest.raises(UserError, match=rf"m-cpux2.csv was measured with other settings \({differing}"):
        Resumable(tmp_path, resume=True, **settings)
    assert rows_of(tmp_path) == before


@pytest.mark.parametrize("edited", ["data/rows.csv", "data/image.png", "words/tokenizer.json", "net.py"])
def test_files_of_the_user_that_were_edited_are_refused(tmp_path: Path, edited: str) -> None:
    for name in ("data/rows.csv", "data/image.png", "words/tokenizer.json", "net.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text = 1\n")
    settings: dict[str, Any] = {
        "data": Data(name="hf", path=f"{tmp_path}/data", processor=f"{tmp_path}/words"),
        "model": a_model(task="own", architecture=None, config={}, module=f"{tmp_path}/net.py:Net"),
    }
    before = Resumable(tmp_path, **settings).rows
    assert Resumable(tmp_path, resume=True, **settings).groups == []
    (tmp_path / edited).write_text("text = 2\n")
    with pytest.raises(
        UserError, match=r"other settings \(the files that it names, or what is default\); go on"
    ):
        Resumable(tmp_path, resume=True, **settings)
    assert rows_of(tmp_path) == before


def test_more_launches_are_added_to_a_complete_comparison(tmp_path: Path) -> None:
    before = Resumable(tmp_path).rows
    run = Resumable(tmp_path, resume=True, measure={"launches": 4})
    assert run.rows[: len(before)] == before
    assert {group.launch for group in run.groups} == {0, 3, 4}
    at_once = Resumable(tmp_path / "at-once", measure={"launches": 4}).rows
    place = ("backend", "launch", "round", "position", "steps", "config_hash")
    assert [[row[name] for name in place] for row in run.rows] == [
        [row[name] for name in place] for row in at_once
    ], "as if all had been made at once"
    fewer = Resumable(tmp_path, resume=True)
    assert fewer.groups == []
    assert fewer.rows == run.rows


def test_another_environment_is_refused_and_the_refusal_names_the_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Resumable(tmp_path).rows
    monkeypatch.setattr(environment, "code_hash", lambda: "another")
    with pytest.raises(
        UserError,
        match=r"another environment \(code: \w+, now another\) at commit \w+(-dirty)?; go on .* -m bench",
    ):
        Resumable(tmp_path, resume=True)
    assert rows_of(tmp_path) == before


def test_a_damaged_file_is_refused_and_stays(tmp_path: Path) -> None:
    Resumable(tmp_path)
    path = tmp_path / "results" / "m-cpux2.csv"
    path.write_bytes(path.read_bytes()[:-20])
    half = path.read_bytes()
    with pytest.raises(UserError, match="is damaged"):
        Resumable(tmp_path, resume=True)
    assert path.read_bytes() == half


def test_a_goal_not_reached_yet_gets_more_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = {"target_half_width": 0.001, "max_launches": 4}
    changes: dict[str, Script] = {"ortmodule": {"launches": {1: 1.05}}}
    of_three_launches = 3 * 4  # groups, with those of parity
    before = interrupted(
        tmp_path, monkeypatch, of_three_launches, "connect", changes=changes, measure=measure
    )
    assert {row["launch"] for row in before} == {"1", "2", "3"}
    run = Resumable(tmp_path, changes, measure=measure, resume=True)
    assert run.rows[: len(before)] == before
    assert {row["launch"] for row in run.rows} == {"1", "2", "3", "4"}
    assert Resumable(tmp_path, changes, measure=measure, resume=True).rows == run.rows


def test_two_runs_of_one_comparison_at_once_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "m"
    with (
        locked(folder, "m"),
        pytest.raises(UserError, match="m is being measured by another process"),
        locked(folder, "m"),
    ):
        pass
    with locked(folder, "m"):
        pass


def test_a_full_disk_ends_the_comparison_in_a_sentence_and_keeps_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = interrupted(tmp_path, monkeypatch, 68)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("bench.results.csv_files.write_atomically", full)
    with pytest.raises(
        UserError, match=r"somewhere cannot be written \(no space left on device\); make room"
    ):
        Resumable(tmp_path, resume=True)
    assert rows_of(tmp_path) == before
