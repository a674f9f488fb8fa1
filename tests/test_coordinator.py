"""A whole comparison with groups that take no time: exact rows, failures, orders."""

import csv
from pathlib import Path
from typing import Any, cast

import pytest
from configs import BACKENDS, a_config
from fakes import FakeGroup, Script, starter
from rich.console import Console

from bench import coordinator
from bench.coordinator import Comparison
from bench.progress import Bar


class Run:
    """One comparison over fake groups: its rows, its failures, the groups that were started."""

    def __init__(self, folder: Path, changes: dict[str, Script] | None = None, **measure: Any) -> None:
        scripts: dict[str, Script] = {
            "pytorch": {"step_seconds": 0.5},
            "ortmodule": {"step_seconds": 0.4},
            "ortmodule_zero1": {"step_seconds": 0.8},
        }
        for name, change in (changes or {}).items():
            scripts[name] |= change
        self.groups: list[FakeGroup] = []
        comparison = Comparison(
            a_config(folder, **measure), "m-cpux2", cast(Any, starter(scripts, self.groups))
        )
        with Bar(comparison.planned(), Console(quiet=True)) as bar:
            comparison.measure(bar)
        self.comparison = comparison
        self.failures = comparison.failures()
        with comparison.csv.open(encoding="utf-8", newline="") as file:
            self.rows = list(csv.DictReader(file))

    def of(self, backend: str) -> list[dict[str, str]]:
        return [row for row in self.rows if row["backend"] == backend]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})


def test_every_backend_has_a_row_for_every_round_of_every_launch(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.failures == []
    for backend in BACKENDS:
        keys = [(row["launch"], row["round"]) for row in run.of(backend)]
        assert keys == [(str(launch), str(round_)) for launch in (1, 2) for round_ in (1, 2, 3)]
    assert {row["status"] for row in run.rows} == {"ok"}


def test_throughput_is_steps_times_global_batch_over_the_slowest_rank_s_seconds(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path)
    # Blocks of 2 s: the reference takes 0.505 s a step on its slower rank, so 3 steps fit.
    for backend, step_seconds in (("pytorch", 0.5), ("ortmodule", 0.4), ("ortmodule_zero1", 0.8)):
        for row in run.of(backend):
            assert row["steps"] == "3"
            assert row["global_batch"] == str(4 * 2 * 2)
            assert float(row["seconds"]) == pytest.approx(3 * step_seconds * 1.01)
            assert float(row["samples_per_s"]) == pytest.approx(16 / (step_seconds * 1.01))


def test_the_row_names_the_optimizer_that_really_ran(tmp_path: Path) -> None:
    assert {row["optimizer"] for row in Run(tmp_path).of("ortmodule")} == {"adamw_fused"}


def test_places_in_the_rounds_follow_the_plan(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for launch in ("1", "2"):
        for backend in BACKENDS:
            places = [row["position"] for row in run.of(backend) if row["launch"] == launch]
            assert sorted(places) == ["1", "2", "3"]


def test_a_group_that_fails_leaves_a_row_and_the_others_go_on(tmp_path: Path) -> None:
    crash = ("oom", "out of memory, they say", "Traceback …")
    run = Run(tmp_path, {"ortmodule": {"fails": {("first_step", 1, 1): crash}}})
    failed = [row for row in run.of("ortmodule") if row["status"] != "ok"]
    assert [(row["launch"], row["status"], row["message"]) for row in failed] == [
        ("1", "oom", "out of memory, they say")
    ]
    assert failed[0]["seconds"] == failed[0]["samples_per_s"] == failed[0]["round"] == ""
    assert len([row for row in run.of("ortmodule") if row["launch"] == "2"]) == 3
    assert len(run.of("pytorch")) == len(run.of("ortmodule_zero1")) == 6
    assert run.failures == ["m-cpux2: ortmodule, launch 1/2: oom: out of memory, they say"]


def test_what_was_measured_before_a_failure_is_kept(tmp_path: Path) -> None:
    crash = ("crashed", "rank 1 ended", "")
    # Blocks of ortmodule in launch 1: warm-up, then rounds 1, 2 …
    run = Run(tmp_path, {"ortmodule": {"fails": {("block", 1, 4): crash}}})
    first = [row for row in run.of("ortmodule") if row["launch"] == "1"]
    assert [(row["round"], row["status"]) for row in first] == [
        ("1", "ok"),
        ("2", "ok"),
        ("", "crashed"),
    ]


def test_every_group_is_closed_whatever_happens(tmp_path: Path) -> None:
    crash = ("crashed", "gone", "")
    run = Run(tmp_path, {"pytorch": {"fails": {("build", 1, 1): crash, ("block", 2, 2): crash}}})
    assert len(run.groups) == 9  # three of the parity launch, three a launch
    assert all(group.closed for group in run.groups)


def test_a_backend_whose_loss_does_not_follow_is_not_timed(tmp_path: Path) -> None:
    run = Run(tmp_path, {"ortmodule": {"loss": 2.1}})
    (row,) = run.of("ortmodule")
    assert (row["launch"], row["status"], row["samples_per_s"]) == ("0", "diverged", "")
    assert "0.05" in row["message"]
    assert len(run.of("pytorch")) == 6


@pytest.mark.parametrize("norm", [1.0, 0.0, float("nan")])
def test_a_backend_whose_gradient_has_another_scale_is_not_timed(tmp_path: Path, norm: float) -> None:
    run = Run(tmp_path, {"ortmodule_zero1": {"gradient_norm": norm}})
    (row,) = run.of("ortmodule_zero1")
    assert (row["launch"], row["status"]) == ("0", "diverged")
    assert "gradient" in row["message"]


def test_a_reference_that_diverges_leaves_nothing_to_compare_with(tmp_path: Path) -> None:
    run = Run(tmp_path, {"pytorch": {"loss": float("nan")}})
    assert {(row["backend"], row["status"]) for row in run.rows} == {
        ("pytorch", "diverged"),
        ("ortmodule", "skipped"),
        ("ortmodule_zero1", "skipped"),
    }


def test_the_loss_difference_is_in_every_row(tmp_path: Path) -> None:
    run = Run(tmp_path, {"ortmodule": {"loss": 2.001}})
    (difference,) = {float(row["loss_difference"]) for row in run.of("ortmodule")}
    assert difference == pytest.approx(0.0005)
    assert {float(row["loss_difference"]) for row in run.of("pytorch")} == {0.0}


@pytest.mark.parametrize("action", ["build", "follow"])
@pytest.mark.parametrize("resident", ["all", "one"])
def test_without_the_reference_s_losses_the_others_are_skipped(
    tmp_path: Path, action: str, resident: str
) -> None:
    crash = ("crashed", "no such model", "")
    run = Run(tmp_path, {"pytorch": {"fails": {(action, 0, 1): crash}}}, resident=resident)
    assert {(row["backend"], row["status"]) for row in run.rows} == {
        ("pytorch", "crashed"),
        ("ortmodule", "skipped"),
        ("ortmodule_zero1", "skipped"),
    }
    assert len(run.failures) == 3


def test_a_loss_that_is_not_finite_in_a_timed_block_has_diverged(tmp_path: Path) -> None:
    run = Run(tmp_path, {"ortmodule": {"block_loss": float("nan")}})
    failed = [(row["launch"], row["status"]) for row in run.of("ortmodule")]
    assert failed == [("1", "diverged"), ("2", "diverged")]
    assert len(run.rows) == 12 + 2


def test_with_one_resident_group_launches_run_there_and_back(tmp_path: Path) -> None:
    run = Run(tmp_path, resident="one")
    assert run.failures == []
    timed = [group.spec.backend for group in run.groups if group.launch > 0]
    assert timed == [*BACKENDS, *reversed(BACKENDS)]
    assert len(run.rows) == 18


def test_parity_runs_without_dropout_and_timing_with_it(tmp_path: Path) -> None:
    assert {(group.launch > 0, group.spec.dropout) for group in Run(tmp_path).groups} == {
        (False, False),
        (True, True),
    }


def test_only_the_reference_makes_the_initial_state_and_all_load_it(tmp_path: Path) -> None:
    groups = Run(tmp_path).groups
    makers = [(g.spec.backend, g.launch) for g in groups if g.spec.saves_initial_state]
    assert makers == [("pytorch", 0)]
    assert len({group.spec.initial_state for group in groups}) == 1


def test_set_up_and_first_step_are_those_of_the_slowest_rank(tmp_path: Path) -> None:
    for row in Run(tmp_path).of("ortmodule"):
        assert float(row["setup_s"]) == 6.0
        assert float(row["first_step_s"]) == pytest.approx(0.4 * 1.01)


def test_a_group_whose_memory_still_grows_is_warmed_up_longer_but_not_for_ever(tmp_path: Path) -> None:
    run = Run(tmp_path, {"pytorch": {"settled": False}})
    # In launch 2: the warm-up's blocks, then one of each round.
    blocks = {group.spec.backend: group.counts["block"] for group in run.groups if group.launch == 2}
    assert blocks == {"pytorch": 4 + 3, "ortmodule": 1 + 3, "ortmodule_zero1": 1 + 3}


def test_a_contaminated_block_is_invalid_but_stays(tmp_path: Path) -> None:
    run = Run(tmp_path, {"ortmodule": {"cpu_share": 1.5}})
    assert {row["status"] for row in run.of("ortmodule")} == {"invalid"}
    assert all(row["seconds"] for row in run.of("ortmodule"))


def test_an_interruption_keeps_the_complete_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = []

    def interrupted(self: FakeGroup, rank: int) -> dict[str, Any]:
        blocks.append(rank)
        if len(blocks) > 50:  # in the middle of the second launch's rounds
            raise KeyboardInterrupt
        return original(self, rank)

    original = FakeGroup._block
    monkeypatch.setattr(FakeGroup, "_block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Run(tmp_path)
    with (tmp_path / "results" / "m-cpux2.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert {row["status"] for row in rows} == {"ok"}
    by_round: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        by_round.setdefault((row["launch"], row["round"]), set()).add(row["backend"])
    assert all(backends == set(BACKENDS) for backends in by_round.values())


def test_run_leaves_csv_table_and_figure_and_names_the_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {name: {"step_seconds": 0.5} for name in BACKENDS}
    scripts["ortmodule"]["fails"] = {("build", 2, 1): ("timeout", "too slow", "")}  # type: ignore[assignment]
    monkeypatch.setattr(
        coordinator,
        "Comparison",
        lambda config, stem: Comparison(config, stem, cast(Any, starter(scripts, []))),
    )
    failures = coordinator.run(a_config(tmp_path), "m-cpux2")
    assert failures == ["m-cpux2: ortmodule, launch 2/2: timeout: too slow"]
    assert (tmp_path / "results" / "m-cpux2.csv").exists()
    assert sorted(path.suffix for path in (tmp_path / "reports").iterdir()) == [
        ".md",
        ".png",
        ".svg",
    ]
