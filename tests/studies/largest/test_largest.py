"""The search for the largest micro-batch: by itself, and inside a simulated comparison."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from bench.config.device import Device
from bench.errors import LaunchFailed, UserError
from bench.measure.plan.preflight import check_memory
from bench.results.arithmetic import search_resolution
from bench.results.records import BatchTrial, LaunchStage
from bench.studies.largest.stage import SearchResult, confirm, find_largest
from tests.support.comparisons import Resumable, Simulated
from tests.support.configs import a_config
from tests.support.fakes import FakeGroup


def up_to(most: int) -> Callable[[int], BatchTrial]:
    def attempt(size: int) -> BatchTrial:
        return BatchTrial(micro_batch=size, fits=size <= most, message="" if size <= most else "bad_alloc")

    return attempt


def tried(found: SearchResult) -> list[int]:
    return [trial.micro_batch for trial in found.trials]


class TestSearch:
    @pytest.mark.parametrize(
        ("start", "most", "micro_batch", "trials"),
        [
            (8, 50, 50, [8, 16, 32, 64, 48, 56, 52, 50, 51]),
            (8, 8, 8, [8, 16, 12, 10, 9]),
            (8, 5, 5, [8, 4, 6, 5]),
            (8, 1, 1, [8, 4, 2, 1]),
            (1, 1, 1, [1, 2]),
            (3, 4, 4, [3, 6, 4, 5]),
            (100, 1000, 1000, [100, 200, 400, 800, 1600, 1200, 1000, 1100, 1050, 1025]),
        ],
    )
    def test_it_doubles_or_halves_and_then_bisects(
        self, start: int, most: int, micro_batch: int, trials: list[int]
    ) -> None:
        found = find_largest(up_to(most), start=start, max_trials=20)
        assert (found.micro_batch, tried(found)) == (micro_batch, trials)

    @pytest.mark.parametrize("start", [1, 5, 8, 64])
    @pytest.mark.parametrize("most", [1, 7, 31, 64, 65, 333, 5000])
    def test_it_ends_within_its_resolution_and_tries_nothing_twice(self, start: int, most: int) -> None:
        found = find_largest(up_to(most), start=start, max_trials=40)
        resolution = search_resolution(found.micro_batch)
        assert found.micro_batch <= most < found.micro_batch + resolution + 1
        assert len(set(tried(found))) == len(tried(found))
        assert found.gap is not None
        assert found.gap <= resolution

    @pytest.mark.parametrize(
        ("most", "max_trials", "words"),
        [
            (50, 20, "50 (tried 8 16 32 64✗ 48 56✗ 52✗ 50 51✗)"),
            (50, 5, "48 (tried 8 16 32 64✗ 48, to within 16: measure.max_trials ended the search)"),
            (1000, 2, "at least 16 (tried 8 16: everything fitted)"),
        ],
    )
    def test_it_says_what_it_tried_and_how_far_it_came(self, most: int, max_trials: int, words: str) -> None:
        found = find_largest(up_to(most), start=8, max_trials=max_trials)
        assert str(found) == f"largest micro-batch {words}"

    @pytest.mark.parametrize(("max_trials", "sizes"), [(20, "8 4 2 1"), (2, "8 4")])
    def test_where_nothing_fits_it_is_out_of_memory(self, max_trials: int, sizes: str) -> None:
        with pytest.raises(
            LaunchFailed, match=f"no micro-batch fits, tried {sizes}; the last: bad_alloc"
        ) as e:
            find_largest(up_to(0), start=8, max_trials=max_trials)
        assert e.value.status == "oom"

    def test_what_was_found_must_fit_again_and_again(self) -> None:
        found = find_largest(up_to(5), start=4, max_trials=20)
        answers = iter([False, True])  # 5, then 4

        def attempt(size: int) -> BatchTrial:
            return BatchTrial(micro_batch=size, fits=next(answers), message="bad_alloc")

        confirmed = confirm(attempt, found)
        assert (confirmed.micro_batch, confirmed.gap) == (4, 1)
        assert tried(confirmed) == [4, 8, 6, 5, 5, 4]
        assert str(confirmed) == "largest micro-batch 4 (tried 4 8✗ 6✗ 5 5✗ 4)"

    def test_what_fits_only_now_and_then_ends(self) -> None:
        found = find_largest(up_to(2), start=2, max_trials=20)
        with pytest.raises(
            LaunchFailed, match="a micro-batch of 1 fitted once and then did not; the last: bad_alloc"
        ) as e:
            confirm(up_to(0), found)
        assert e.value.status == "oom"

    def test_one_step_down_is_one_resolution(self) -> None:
        assert [size - search_resolution(size) for size in (1, 2, 48, 64, 640)] == [0, 1, 47, 62, 620]


FITS: dict[str, dict[str, Any]] = {
    "pytorch": {"fits": 9},
    "ortmodule": {"fits": 13},
    "ortmodule_zero1": {"fits": 3},
}


def batches(rows: list[dict[str, str]]) -> dict[str, set[tuple[str, str]]]:
    """Micro-batch and global batch by backend."""
    return {
        name: {(row["micro_batch"], row["global_batch"]) for row in rows if row["backend"] == name}
        for name in dict.fromkeys(row["backend"] for row in rows)
    }


def a_run(folder: Path, changes: dict[str, Any] | None = None, **measure: Any) -> Simulated:
    scripts = {name: dict(script) for name, script in FITS.items()}
    for name, change in (changes or {}).items():
        scripts[name] |= change
    return Simulated(folder, scripts, batch="max", **measure)


@pytest.mark.usefixtures("two_cores")
class TestComparison:
    @pytest.fixture(autouse=True)
    def limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On the configuration of every comparison in this class."""
        monkeypatch.setattr(Device, "memory_limit_gib", 4.0)
        original = a_config.__globals__["Device"]

        def limited(**figures: Any) -> Device:
            return original(**figures | {"memory_limit_gib": 4.0})

        monkeypatch.setitem(a_config.__globals__, "Device", limited)

    @pytest.mark.parametrize("schedule", ["interleaved", "sequential"])
    def test_each_backend_is_measured_at_its_own(self, tmp_path: Path, schedule: str) -> None:
        run = a_run(tmp_path, schedule=schedule)
        assert run.failures == []
        assert batches(run.rows) == {
            "pytorch": {("9", "36")},
            "ortmodule": {("13", "52")},
            "ortmodule_zero1": {("3", "12")},
        }
        assert {row["batch_rule"] for row in run.rows} == {"max"}
        assert {row["steps"] for row in run.rows} == {"3"}, "found on the reference, for all"
        for row in run.rows:
            seconds, steps = float(row["seconds"]), int(row["steps"])
            assert float(row["samples_per_s"]) == pytest.approx(steps * int(row["global_batch"]) / seconds)

    def test_what_fits_only_after_the_allocator_freed_its_cache_does_not_fit(self, tmp_path: Path) -> None:
        run = a_run(tmp_path, {"ortmodule": {"fits": 99, "fits_at_once": 13}})
        assert run.failures == []
        assert batches(run.rows)["ortmodule"] == {("13", "52")}

    def test_parity_is_checked_at_the_configured_one_and_trials_have_dropout(self, tmp_path: Path) -> None:
        groups = a_run(tmp_path).groups
        parity = [group for group in groups if group.launch == 0 and not group.trial]
        assert {group.spec.micro_batch for group in parity} == {4}
        trials = [group for group in groups if group.trial]
        assert {group.spec.dropout for group in trials} == {True}
        launches = {group.spec.memory_limit_bytes for group in groups if group.launch}
        assert launches == {2 << 30}, "of each rank"
        assert {group.spec.memory_limit_bytes for group in trials} == {int(0.9 * (2 << 30))}
        assert [group.spec.micro_batch for group in trials if group.spec.backend == "pytorch"] == [
            *(4, 8, 16, 12, 10, 9, 9)
        ]
        assert all(group.closed for group in groups)

    def test_a_trial_runs_alone_and_is_on_record(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = FakeGroup.connect

        def connect(self: FakeGroup) -> None:
            if self.trial:
                assert all(group.closed for group in self.started if group is not self)
            original(self)

        monkeypatch.setattr(FakeGroup, "connect", connect)
        run = a_run(tmp_path)
        assert run.failures == []
        trials = run.comparison.shared.ledger.records[1, "ortmodule_zero1"].trials
        fitted = [(4, False), (2, True), (3, True), (3, True)]
        assert [(trial.micro_batch, trial.fits) for trial in trials] == fitted
        assert trials[0].message == "can't allocate memory"

    def test_a_backend_that_fits_nowhere_has_a_row_that_says_so(self, tmp_path: Path) -> None:
        run = a_run(tmp_path, {"ortmodule": {"fits": 0}})
        (row,) = run.of("ortmodule")
        assert (row["launch"], row["status"]) == ("0", "oom")
        assert "no micro-batch fits, tried 4 2 1" in row["message"]
        assert len(run.of("pytorch")) == len(run.of("ortmodule_zero1")) == 6
        (failure,) = run.failures
        assert failure.startswith("ortmodule, search for the largest batch: oom: in the search for")
        assert run.comparison.shared.ledger.records[0, "ortmodule"].stage is LaunchStage.SEARCH

    @pytest.mark.parametrize("status", ["timeout", "crashed", "unsupported"])
    def test_any_other_failure_is_no_answer_but_the_backend_s_own(self, tmp_path: Path, status: str) -> None:
        run = a_run(tmp_path, {"ortmodule": {"fails": {("first_step", 0, 1): (status, "they say", "")}}})
        (row,) = run.of("ortmodule")
        assert (row["launch"], row["status"]) == ("0", status)
        assert row["message"] == "in the search for the largest micro-batch: micro-batch 4: they say"

    def test_without_the_reference_s_own_there_is_nothing_to_compare_with(self, tmp_path: Path) -> None:
        run = a_run(tmp_path, {"pytorch": {"fits": 0}})
        assert {(row["backend"], row["status"]) for row in run.rows} == {
            ("pytorch", "oom"),
            ("ortmodule", "skipped"),
            ("ortmodule_zero1", "skipped"),
        }

    @pytest.mark.parametrize("schedule", ["interleaved", "sequential"])
    def test_one_that_does_not_last_a_launch_steps_down_and_starts_over(
        self, tmp_path: Path, schedule: str
    ) -> None:
        oom = ("oom", "can't allocate memory", "")
        run = a_run(tmp_path, {"ortmodule": {"breaks": {(2, 13): oom}}}, schedule=schedule)
        assert run.failures == []
        assert batches(run.of("ortmodule")) == {"ortmodule": {("12", "48")}}, "nothing of 13 is left"
        assert {row["launch"] for row in run.of("ortmodule")} == {"3", "4"}, "as many launches as asked for"
        assert {row["launch"] for row in run.of("pytorch")} == {"1", "2", "3", "4"}
        (last,) = run.comparison.shared.ledger.records[3, "ortmodule"].trials[-1:]
        assert (last.micro_batch, last.fits) == (13, False)
        assert last.message == "launch 2: can't allocate memory"

    def test_it_does_not_step_down_for_ever(self, tmp_path: Path) -> None:
        oom = ("oom", "can't allocate memory", "")
        breaks = {(launch, size): oom for launch in range(1, 9) for size in range(1, 14)}
        run = a_run(tmp_path, {"ortmodule": {"breaks": breaks}})
        sizes = {row["micro_batch"] for row in run.of("ortmodule")}
        assert sizes == {"10"}, "three steps down"
        failed = {(row["launch"], row["status"]) for row in run.of("ortmodule") if not row["round"]}
        assert failed == {("4", "oom"), ("5", "oom")}

    @pytest.mark.parametrize(
        ("before", "searched"),
        [({"fails": {("block", 2, 5): ("crashed", "gone", "")}}, set()), ({"fits": 0}, {"ortmodule"})],
    )
    def test_a_resumed_comparison_searches_for_what_has_no_rows_alone(
        self, tmp_path: Path, before: dict[str, Any], searched: set[str]
    ) -> None:
        scripts: dict[str, Any] = {name: dict(script) for name, script in FITS.items()}
        broken = scripts | {"ortmodule": scripts["ortmodule"] | before}
        Resumable(tmp_path, broken, measure={"batch": "max"})
        run = Resumable(tmp_path, scripts, measure={"batch": "max"}, resume=True)
        assert {group.spec.backend for group in run.groups if group.trial} == searched
        assert batches(run.rows)["ortmodule"] == {("13", "52")}
        assert run.failures == []


def test_on_a_cpu_it_needs_a_limit(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"measure.batch=max on a CPU needs device.memory_limit_gib=…"):
        a_config(tmp_path, batch="max")


@pytest.mark.parametrize(("schedule", "refused"), [("interleaved", True), ("sequential", False)])
def test_limits_that_are_more_than_the_machine_are_refused(
    tmp_path: Path, schedule: str, refused: bool
) -> None:
    made = a_config(tmp_path, schedule=schedule)
    made.device.memory_limit_gib, made.measure.batch = 8, "max"
    words = "for each of 3 backends at a time .* set device.memory_limit_gib=4.2,"
    with pytest.raises(UserError, match=words) if refused else nullcontext():
        check_memory(made, host_bytes=16 << 30)
