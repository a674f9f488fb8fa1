"""Checkpoints: which is the newest, what damage is seen, what is written of them, and what a page says."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.errors import LaunchFailed, UserError
from bench.measure.stages.judging import Trajectory
from bench.report.content.collection import ReportedComparison
from bench.studies.checkpoint import files
from bench.studies.checkpoint.files import LIST, UNFINISHED
from bench.studies.checkpoint.stage import SAME, judge
from bench.studies.checkpoint.table import TABLE
from tests.studies.checkpoint import fakes  # noqa: F401 - fake groups save by it
from tests.support.comparisons import Resumable
from tests.support.factories import comparison
from tests.support.fakes import Script
from tests.support.reports import render_comparison
from tests.support.result_files import table_of_records


def save(folder: Path, steps: int, content: bytes = b"weights") -> Path:
    unfinished = files.begin(folder)
    (unfinished / "zero").mkdir()
    (unfinished / "state.pt").write_bytes(content)
    (unfinished / "zero" / "shard-0.pt").write_bytes(b"states")
    listed = files.finish(folder, steps)
    assert listed.bytes == len(content) + 6
    return files.find_newest(folder)


def test_the_newest_finished_one_is_loaded_and_two_are_kept(tmp_path: Path) -> None:
    paths = [save(tmp_path, steps) for steps in (3, 5, 5)]
    assert files.read_list(paths[-1]).steps == 5
    assert sorted(tmp_path.iterdir()) == paths[1:]
    assert not (tmp_path / UNFINISHED).exists()


def test_what_a_killed_save_has_left_is_neither_loaded_nor_in_the_way(tmp_path: Path) -> None:
    first = save(tmp_path, 3)
    left = files.begin(tmp_path)
    (left / "state.pt").write_bytes(b"wei")
    assert files.find_newest(tmp_path) == first
    files.check(first)
    assert files.read_list(first).steps == 3
    second = save(tmp_path, 4)
    assert files.read_list(second).bytes == 7 + 6


def test_a_check_that_is_wanted_later_is_made_up_for_where_nothing_is_timed(tmp_path: Path) -> None:
    parity: dict[str, Any] = {"measure": {"launches": 0}, "resume": True}
    diverged: dict[str, Script] = {"ortmodule": {"loss": 2.1}}
    Resumable(tmp_path, diverged, **parity)
    run = Resumable(tmp_path, diverged, after="checkpoint", **parity)
    assert [row["status"] for row in run.rows] == ["untimed", "diverged", "untimed"]
    table = TABLE.read(TABLE.path_of(run.comparison.shared.output.csv))
    assert {"pytorch", "ortmodule_zero1"} <= set(table["backend"])
    assert Resumable(tmp_path, diverged, after="checkpoint", **parity).groups == []
    assert Resumable(tmp_path, diverged, **parity).groups == []


def test_without_a_finished_one_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    files.begin(tmp_path)
    with pytest.raises(LaunchFailed, match=r"there is no finished checkpoint in .*; train from the start"):
        files.find_newest(tmp_path)


def test_a_damaged_one_is_refused_with_the_file_and_the_remedy(tmp_path: Path) -> None:
    save(tmp_path, 3)
    path = save(tmp_path, 4)
    state, listed = path / "state.pt", (path / LIST).read_bytes()

    def damage() -> str:
        with pytest.raises(LaunchFailed) as refused:
            files.check(path)
        assert refused.value.message.endswith(f"; remove {path}, and the one before it is loaded")
        return refused.value.message

    state.write_bytes(b"weighty")
    assert "the content of state.pt has changed" in damage()
    state.write_bytes(b"weig")
    assert "the content of state.pt has changed" in damage()
    state.unlink()
    assert "state.pt is missing" in damage()
    state.write_bytes(b"weights")
    (path / LIST).write_bytes(listed[:-5])
    assert f"{LIST} cannot be read" in damage()
    (path / LIST).write_bytes(listed)
    files.check(path)


def a_trajectory(*losses: float, norms: tuple[float, ...] = (2.0, 1.0)) -> Trajectory:
    return Trajectory(losses=losses, gradient_norms=norms)


@pytest.mark.parametrize(
    ("resumed", "status"),
    [
        (a_trajectory(3.0, 2.0), "ok"),
        (a_trajectory(3.0, 2.0 * (1 + 0.9 * SAME)), "ok"),
        (a_trajectory(3.0, 2.0 * (1 + 1.1 * SAME)), "diverged"),
        (a_trajectory(3.0, 2.0, norms=(2.0, 1.1)), "diverged"),
        (a_trajectory(3.0, float("nan")), "diverged"),
        (a_trajectory(3.0, 2.0, norms=(2.0, 0.0)), "diverged"),
    ],
)
def test_what_resumes_must_go_on_as_if_nothing_had_happened(resumed: Trajectory, status: str) -> None:
    judged = judge(a_trajectory(3.0, 2.0), resumed)
    assert judged["status"] == status
    assert bool(judged["message"]) == (status != "ok")


def test_the_file_and_the_page_have_a_line_for_each_backend(tmp_path: Path) -> None:
    path = TABLE.path_of(tmp_path / "m.csv")
    assert path == tmp_path / "m.checkpoint.csv"
    blank = dict.fromkeys(TABLE.columns, "x") | dict.fromkeys(TABLE.numbers, None)
    figures = {"steps": 3, "save_s": 0.25, "load_s": 0.125, "checkpoint_mib": 42.5, "difference": 2e-9}
    TABLE.write(
        path,
        [
            blank | {"backend": "ortmodule", "status": "ok", "message": ""} | figures,
            blank | {"backend": "pytorch", "status": "crashed", "message": "no room"},
        ],
    )
    table = TABLE.read(path)
    assert table["save_s"].isna().tolist() == [False, True]
    rows = table_of_records(comparison({"pytorch": [[2.0], [2.0]], "ortmodule": [[1.0], [1.1]]}))
    page = render_comparison(ReportedComparison(stem="m", rows=rows, of_studies={"checkpoint": table}))
    section = page[page.index("**Checkpoints**") :]
    assert "| ortmodule | ok | 42.50 | 0.25 | 0.12 | 2e-09 |" in section
    assert "| pytorch | crashed: no room | – | – | – | – |" in section
    assert "**Checkpoints**" not in render_comparison(ReportedComparison(stem="m", rows=rows))
    path.write_text(path.read_text().replace("save_s", "seconds"))
    with pytest.raises(UserError, match=r"m\.checkpoint\.csv cannot be read as what became of checkpoints"):
        TABLE.read(path)


# --- the comparison, with groups that take no time -------------------------------------------------


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})


def became(folder: Path, **script: Any) -> tuple[Resumable, pd.DataFrame]:
    """A comparison that is timed, too, in which `ortmodule` follows this script; and its checkpoints."""
    run = Resumable(folder, {"ortmodule": script}, after="checkpoint")
    table = TABLE.read(TABLE.path_of(folder / "results" / "m-cpux2.csv"))
    return run, table.set_index("backend")


@pytest.mark.usefixtures("two_cores")
def test_every_backend_saves_and_a_fresh_group_goes_on_with_the_next_batch(tmp_path: Path) -> None:
    run, table = became(tmp_path)
    assert run.failures == []
    assert table["status"].tolist() == ["ok"] * 3
    assert table["save_s"].tolist() == [1.5] * 3, "of the slowest rank"
    assert table["load_s"].tolist() == [1.25] * 3
    assert table["checkpoint_mib"].tolist() == [3.0] * 3
    assert table["difference"].tolist() == [0.0] * 3
    loaders = [group for group in run.groups if group.counts.get("load_checkpoint")]
    assert len(loaders) == 3
    assert all(group.counts["build"] == 1 and group.closed for group in loaders)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("action", ["save_checkpoint", "load_checkpoint"])
def test_what_fails_leaves_its_row_and_is_timed_all_the_same(action: str, tmp_path: Path) -> None:
    full = ("crashed", "there is no room", "")
    run, table = became(tmp_path, fails={(action, 0, 1): full})
    assert table["status"].to_dict() == {"pytorch": "ok", "ortmodule": "crashed", "ortmodule_zero1": "ok"}
    assert table.loc["ortmodule", "message"] == "there is no room"
    assert run.failures == []
    assert {row["status"] for row in run.rows} == {"ok"}
    assert {row["backend"] for row in run.rows} == {*table.index}


@pytest.mark.usefixtures("two_cores")
def test_a_gradient_that_is_zero_ends_in_rows(tmp_path: Path) -> None:
    run, table = became(tmp_path, gradient_norm=0.0)
    assert table.loc["ortmodule", "status"] == "diverged"
    assert "zero or not finite" in str(table.loc["ortmodule", "message"])
    assert any("the gradient is zero" in line for line in run.failures)


def test_a_check_that_is_wanted_later_is_made_up_for_and_none_is_made_again(tmp_path: Path) -> None:
    before = Resumable(tmp_path).rows
    run = Resumable(tmp_path, resume=True, after="checkpoint")
    assert run.rows == before
    table = TABLE.path_of(run.comparison.shared.output.csv)
    assert set(TABLE.read(table)["backend"]) == {"pytorch", "ortmodule", "ortmodule_zero1"}
    assert Resumable(tmp_path, resume=True, after="checkpoint").groups == []
    written = table.stat().st_mtime_ns
    Resumable(tmp_path, resume=True, after="checkpoint", measure={"launches": 3})
    assert table.stat().st_mtime_ns == written
