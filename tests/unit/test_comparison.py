"""A whole comparison with groups that take no time: exact rows, failures, orders."""

import csv
import json
from pathlib import Path
from typing import Any, cast

import pytest

from bench.__main__ import measure_and_report
from bench.config.differences import overrides_of
from bench.config.naming import command_with
from bench.errors import UserError
from bench.launch.messages import TimeBlock
from bench.measure import comparison as coordinator
from bench.measure.comparison import Comparison
from bench.measure.plan import preflight
from bench.measure.plan.cores import leaving_the_ranks_cores
from bench.measure.plan.plans import timed
from bench.measure.plan.preflight import check_studies
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import backend_notes
from bench.results import csv_files
from bench.setup import stacks
from bench.statistics.summary import widest_half_width
from tests.support.comparisons import Simulated
from tests.support.configs import BACKENDS, a_config
from tests.support.fakes import FakeGroup, starter

pytestmark = pytest.mark.usefixtures("two_cores")


@pytest.fixture(scope="module")
def faultless(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    """A comparison in which all goes well, to look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.sched_getaffinity", lambda _: {0, 1})
        return Simulated(tmp_path_factory.mktemp("faultless"))


def test_every_backend_has_a_row_and_a_place_in_every_round_of_every_launch(faultless: Simulated) -> None:
    assert faultless.failures == []
    for backend in BACKENDS:
        keys = [(row["launch"], row["round"]) for row in faultless.of(backend)]
        assert keys == [(str(launch), str(round_)) for launch in (1, 2) for round_ in (1, 2, 3)]
        for launch in ("1", "2"):
            places = [row["position"] for row in faultless.of(backend) if row["launch"] == launch]
            assert sorted(places) == ["1", "2", "3"]
    assert {row["status"] for row in faultless.rows} == {"ok"}


def test_throughput_is_steps_times_global_batch_over_the_slowest_rank_s_seconds(faultless: Simulated) -> None:
    # Blocks of 2 s: the reference takes 0.505 s a step on its slower rank, so 3 steps fit.
    for backend, step_seconds in (("pytorch", 0.5), ("ortmodule", 0.4), ("ortmodule_zero1", 0.8)):
        for row in faultless.of(backend):
            assert row["steps"] == "3"
            assert row["global_batch"] == str(4 * 2 * 2)
            assert float(row["seconds"]) == pytest.approx(3 * step_seconds * 1.01)
            assert float(row["samples_per_s"]) == pytest.approx(16 / (step_seconds * 1.01))
    for row in faultless.of("ortmodule"):
        assert float(row["setup_s"]) == 6.0
        assert float(row["first_step_s"]) == pytest.approx(0.4 * 1.01)
        assert row["optimizer"] == "adamw_fused", "that really ran"


def test_parity_runs_without_dropout_and_only_the_reference_s_makes_the_state_that_all_load(
    faultless: Simulated,
) -> None:
    specs = [(group.launch > 0, group.spec) for group in faultless.groups]
    assert {(timed, spec.dropout) for timed, spec in specs} == {(False, False), (True, True)}
    makers = [(spec.backend, timed) for timed, spec in specs if spec.saves_initial_state]
    assert makers == [("pytorch", False)]
    assert len({spec.initial_state for _, spec in specs}) == 1


@pytest.mark.parametrize(
    ("schedule", "preheat_s"), [("interleaved", 7.0), ("sequential", 7.0), ("interleaved", 0.0)]
)
def test_every_backend_is_preheated_for_the_same_time(
    tmp_path: Path, schedule: str, preheat_s: float
) -> None:
    run = Simulated(tmp_path, schedule=schedule, preheat_s=preheat_s)
    unheated = Simulated(tmp_path / "unheated", schedule=schedule)
    for name, step_seconds in (("pytorch", 0.5), ("ortmodule", 0.4), ("ortmodule_zero1", 0.8)):
        for row, other in zip(run.of(name), unheated.of(name), strict=True):
            heated = float(row["warm_up_s"]) - float(other["warm_up_s"])
            share = (
                preheat_s / 3 if schedule == "interleaved" else preheat_s
            )  # all three warm the same devices
            assert share <= heated <= share + 1.02 * step_seconds if preheat_s else heated == 0


def test_a_group_that_fails_leaves_a_row_and_the_others_go_on(tmp_path: Path) -> None:
    crash = ("oom", "out of memory, they say", "Traceback …")
    run = Simulated(tmp_path, {"ortmodule": {"fails": {("first_step", 1, 1): crash}}})
    failed = [row for row in run.of("ortmodule") if row["status"] != "ok"]
    assert [(row["launch"], row["status"], row["message"]) for row in failed] == [
        ("1", "oom", "out of memory, they say")
    ]
    assert failed[0]["seconds"] == failed[0]["samples_per_s"] == failed[0]["round"] == ""
    assert len([row for row in run.of("ortmodule") if row["launch"] == "2"]) == 3
    assert len(run.of("pytorch")) == len(run.of("ortmodule_zero1")) == 6
    assert run.failures == ["ortmodule, launch 1/2: oom: out of memory, they say"]


def test_what_was_measured_before_a_failure_is_kept(tmp_path: Path) -> None:
    crash = ("crashed", "rank 1 ended", "")
    # Blocks of ortmodule in launch 1: two of the warm-up, then rounds 1, 2 …
    run = Simulated(tmp_path, {"ortmodule": {"fails": {("block", 1, 5): crash}}})
    first = [row for row in run.of("ortmodule") if row["launch"] == "1"]
    assert [(row["round"], row["status"]) for row in first] == [("1", "ok"), ("2", "ok"), ("", "crashed")]


def test_where_the_reference_fails_in_the_warm_up_another_backend_says_how_many_steps_a_block_has(
    tmp_path: Path,
) -> None:
    crash = ("crashed", "rank 0 ended", "")
    run = Simulated(tmp_path, {"pytorch": {"fails": {("block", 1, 2): crash}}})
    assert [row["backend"] for row in run.rows if row["status"] != "ok"] == ["pytorch"]
    assert len(run.of("ortmodule")) == len(run.of("ortmodule_zero1")) == 6
    assert {row["steps"] for row in run.of("ortmodule")} == {"4"}  # found on ortmodule: 2 s of 0.404 s


def test_every_group_is_closed_whatever_happens(tmp_path: Path) -> None:
    crash = ("crashed", "gone", "")
    run = Simulated(tmp_path, {"pytorch": {"fails": {("build", 1, 1): crash, ("block", 2, 4): crash}}})
    assert len(run.groups) == 9  # three of the parity launch, three a launch
    assert all(group.closed for group in run.groups)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"loss": 2.1}, "0.05"),
        ({"gradient_norm": 1.0}, "gradient"),
        ({"gradient_norm": 0.0}, "gradient"),
        ({"gradient_norm": float("nan")}, "gradient"),
    ],
)
def test_a_backend_whose_loss_or_gradient_does_not_follow_is_not_timed(
    tmp_path: Path, script: dict[str, Any], words: str
) -> None:
    run = Simulated(tmp_path, {"ortmodule": script})
    (row,) = run.of("ortmodule")
    assert (row["launch"], row["status"], row["samples_per_s"]) == ("0", "diverged", "")
    assert words in row["message"]
    assert len(run.of("pytorch")) == 6


def test_without_launches_parity_is_all_and_each_backend_has_a_row(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"loss": 2.0002}, "ortmodule_zero1": {"loss": 2.1}}, launches=0)
    assert [(row["backend"], row["launch"], row["status"]) for row in run.rows] == [
        ("pytorch", "0", "untimed"),
        ("ortmodule", "0", "untimed"),
        ("ortmodule_zero1", "0", "diverged"),
    ]
    assert float(run.of("ortmodule")[0]["loss_difference"]) == pytest.approx(1e-4)
    assert {row["parameters"] for row in run.of("ortmodule")} == {"1000"}
    assert {row["samples_per_s"] for row in run.rows} == {""}
    (line,) = run.failures
    assert "ortmodule_zero1, parity launch: diverged" in line
    assert "parity: ortmodule trains like pytorch" in run.printed
    assert len(run.groups) == 3
    record = json.loads(
        (run.comparison.shared.output.folder / "parity" / "ortmodule" / "record.json").read_text()
    )
    assert record["proof"] == {"ran": True}
    assert record["stage"] == "parity"


WRONG = {"gradient words": 0.01}
LOST = {"weight update words": 1.0}


def test_a_backend_that_loses_a_gradient_is_not_timed(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"differences": {"fp32": WRONG}}})
    (row,) = run.of("ortmodule")
    assert (row["launch"], row["status"]) == ("0", "diverged")
    assert "the gradient words of the first step in fp32 differs" in row["message"]
    record = json.loads(
        (run.comparison.shared.output.folder / "parity" / "ortmodule" / "record.json").read_text()
    )
    assert record["worst_tensors"]["fp32"]["error"] == 0.01
    assert len(run.of("ortmodule_zero1")) == 6
    assert not run.comparison.shared.output.expected_tensors.exists()


def test_a_backend_that_loses_an_update_is_not_timed_unless_its_optimizer_makes_another(
    tmp_path: Path,
) -> None:
    script = {"differences": {"fp32": {"gradient words": 0.0} | LOST}}
    run = Simulated(
        tmp_path,
        {"ortmodule": script, "ortmodule_zero1": script},
        launches=0,
        backends={"ortmodule_zero1": {"sharding": "ddp", "optimizer": "adafactor"}},
    )
    assert [row["status"] for row in run.rows] == ["untimed", "diverged", "untimed"]
    assert "the weight update words in fp32 differs" in run.of("ortmodule")[0]["message"]


def test_in_16_bits_gradients_are_compared_in_fp32_too(tmp_path: Path) -> None:
    differences = {"bf16": WRONG}
    run = Simulated(
        tmp_path,
        {
            "pytorch": {"differences": differences},
            "ortmodule": {"differences": differences},
            "ortmodule_zero1": {"differences": differences | {"fp32": WRONG}},
        },
        launches=0,
        precision="bf16",
    )
    assert [row["status"] for row in run.rows] == ["untimed", "untimed", "diverged"]
    assert "in fp32" in run.of("ortmodule_zero1")[0]["message"]
    assert [group.spec.precision.name for group in run.groups] == ["bf16"] * 3 + ["fp32"] * 3
    assert [group.spec.saves_initial_state for group in run.groups] == [True] + [False] * 5


@pytest.mark.parametrize(
    ("precision", "backends", "how"),
    [("bf16", {}, "in bf16 alone"), ("fp32", {"ortmodule": {"precision": "bf16"}}, "by their norm alone")],
)
def test_a_backend_that_cannot_train_in_fp32_is_judged_without_it(
    tmp_path: Path, precision: str, backends: dict[str, Any], how: str
) -> None:
    script = {"differences": {"bf16": {}}, "cannot": {"fp32": ("oom", "no room")}}
    run = Simulated(tmp_path, {"ortmodule": script}, launches=0, precision=precision, backends=backends)
    assert [row["status"] for row in run.rows] == ["untimed"] * 3
    said = f"tensors are compared {how}, not in fp32: no room"
    assert f"ortmodule: {said}" in run.printed
    assert [row["message"] for row in run.rows] == ["", said, ""]


def test_what_was_not_compared_stands_in_each_row_and_under_the_table(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"cannot": {"fp32": ("oom", "no room")}}}, precision="bf16")
    said = "tensors are compared in bf16 alone, not in fp32: no room"
    assert {row["message"] for row in run.of("ortmodule")} == {said}
    comparison = ReportedComparison(stem="a", rows=csv_files.read(run.comparison.shared.output.csv))
    assert backend_notes(comparison.summaries) == [("ortmodule", said)]


def test_a_backend_with_16_bits_alone_is_left_out_of_the_launch_in_fp32(tmp_path: Path) -> None:
    native = {"ortmodule_zero1": {"sharding": "zero1_native"}}
    run = Simulated(tmp_path, backends=native, launches=0, precision="bf16")
    assert [row["status"] for row in run.rows] == ["untimed"] * 3
    assert "parity: ortmodule, ortmodule_zero1 train like pytorch" in run.printed
    in_fp32 = [group.spec.backend for group in run.groups if group.spec.precision.name == "fp32"]
    assert in_fp32 == ["pytorch", "ortmodule"]
    said = "tensors are compared in bf16 alone, not in fp32: it has none"
    assert run.printed.count(f"ortmodule_zero1: {said}") == 1
    assert [row["message"] for row in run.rows] == ["", "", said]


def test_gradients_that_cannot_be_computed_leave_the_losses_to_judge_by(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"pytorch": {"no_expected_tensors": "there is no room"}}, launches=0)
    assert [row["status"] for row in run.rows] == ["untimed"] * 3
    said = "gradients are compared by their norm alone, and weights not at all: there is no room"
    assert said in run.printed
    assert {row["message"] for row in run.rows} == {said}


def test_a_reference_that_diverges_leaves_nothing_to_compare_with(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"pytorch": {"loss": float("nan")}})
    assert [row["status"] for row in run.rows] == ["diverged", "skipped", "skipped"]


WARNED = ["m.py, line 3: Converting a tensor to a Python boolean", "m.py, line 4: Converting a tensor"]
BATCHES = {("fp32", 1, 1): 2.6, ("late", 1, 0): 2.4}


@pytest.mark.parametrize(
    ("script", "reference", "launch", "message"),
    [
        ({"batch_losses": BATCHES}, {}, "0", "the loss of batch 1 of rank 1 with dropout off is 2.6 and"),
        ({"batch_losses": {("late", 1, 0): 2.4}}, {"random": True}, "1", "loss of batch 1 of rank 0 after l"),
        ({"changes_at": 9}, {}, "1", "the loss of step 10 is 3 and differs from the reference's, 2, by 0.5"),
    ],
)
def test_another_loss_of_a_later_batch_or_step_has_diverged_and_what_an_export_froze_is_named(
    tmp_path: Path, script: dict[str, Any], reference: dict[str, Any], launch: str, message: str
) -> None:
    run = Simulated(tmp_path, {"ortmodule": script | {"frozen": WARNED}, "pytorch": reference})
    failed = [row for row in run.of("ortmodule") if row["status"] != "ok"]
    assert {row["status"] for row in failed} == {"diverged"}
    assert failed[0]["launch"] == launch
    assert message in failed[0]["message"]
    assert failed[0]["message"].endswith(f"; ONNX's export froze {WARNED[0]} (and 1 more)")
    assert {row["status"] for row in run.of("pytorch")} == {"ok"}


@pytest.mark.parametrize(("script", "launch"), [({"batch_losses": BATCHES}, "0"), ({"changes_at": 9}, "1")])
def test_without_the_exporter_s_warning_only_a_later_step_may_be_due_to_the_export(
    tmp_path: Path, script: dict[str, Any], launch: str
) -> None:
    run = Simulated(tmp_path, {"ortmodule": script | {"frozen": []}})
    failed = next(row for row in run.of("ortmodule") if row["status"] != "ok")
    assert failed["launch"] == launch
    assert ("ONNX's export may have frozen" in failed["message"]) == (launch == "1")
    assert "export froze" not in failed["message"]


def test_a_backend_that_fails_on_a_batch_that_is_timed_is_not_timed(tmp_path: Path) -> None:
    crash = ("crashed", "batch 5 of rank 0: IndexError: index out of range in self", "")
    run = Simulated(tmp_path, {"ortmodule": {"fails": {("compute_losses", 0, 1): crash}}})
    (row,) = run.of("ortmodule")
    assert (row["status"], row["message"].partition(":")[0]) == ("crashed", "batch 5 of rank 0")
    assert {row["status"] for row in run.of("pytorch")} == {"ok"}


def test_where_steps_are_random_their_losses_are_not_compared(tmp_path: Path) -> None:
    assert Simulated(tmp_path, {"ortmodule": {"changes_at": 9, "random": True}}).failures == []


def test_the_loss_difference_is_in_every_row(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"loss": 2.001}})
    (difference,) = {float(row["loss_difference"]) for row in run.of("ortmodule")}
    assert difference == pytest.approx(0.0005)
    assert {float(row["loss_difference"]) for row in run.of("pytorch")} == {0.0}


@pytest.mark.parametrize("action", ["build", "parity"])
@pytest.mark.parametrize("schedule", ["interleaved", "sequential"])
def test_without_the_reference_s_losses_the_others_are_skipped(
    tmp_path: Path, action: str, schedule: str
) -> None:
    crash = ("crashed", "no such model", "")
    run = Simulated(tmp_path, {"pytorch": {"fails": {(action, 0, 1): crash}}}, schedule=schedule)
    assert [row["status"] for row in run.rows] == ["crashed", "skipped", "skipped"]
    assert len(run.failures) == 3


def test_a_loss_that_is_not_finite_in_a_timed_block_has_diverged(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"block_loss": float("nan")}})
    failed = [(row["launch"], row["status"]) for row in run.of("ortmodule")]
    assert failed == [("1", "diverged"), ("2", "diverged")]
    assert len(run.rows) == 12 + 2


@pytest.mark.parametrize(
    ("place", "figures", "words"),
    [
        ((1, 5), {"samples": 40}, "rank 1 trained 40 samples in "),
        ((0, None), {"tokens": 7}, "rank 0 trained 7 tokens in 1 steps"),
        ((1, None), {"micro_batches": 1}, "rank 1 trained 1 micro-batches in 1 steps"),
    ],
)
def test_a_row_whose_ranks_trained_another_batch_is_invalid(
    place: tuple[int, int | None], figures: dict[str, int], words: str, tmp_path: Path
) -> None:
    last = Simulated(tmp_path, {"ortmodule": {"trained": {place: figures}}}).of("ortmodule")[-1]
    assert last["status"] == "invalid"
    assert words in last["message"]
    assert f"micro_batch={last['micro_batch']} " in last["message"]


def test_with_a_sequential_schedule_launches_run_there_and_back(tmp_path: Path) -> None:
    run = Simulated(tmp_path, schedule="sequential")
    assert run.failures == []
    timed = [group.spec.backend for group in run.groups if group.launch > 0]
    assert timed == [*BACKENDS, *reversed(BACKENDS)]
    assert len(run.rows) == 18


def test_a_group_whose_memory_still_grows_is_warmed_up_longer_but_not_for_ever(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"pytorch": {"settled": False}})
    # In launch 2: the warm-up's blocks, then one of each round.
    blocks = {group.spec.backend: group.counts["block"] for group in run.groups if group.launch == 2}
    assert blocks == {"pytorch": 7 + 3, "ortmodule": 2 + 3, "ortmodule_zero1": 2 + 3}
    assert {row["warm_up_settled"] for row in run.of("pytorch")} == {"0"}
    assert {row["warm_up_settled"] for row in run.of("ortmodule")} == {"1"}
    assert {row["warm_up_steps"] for row in run.of("pytorch")} == {"13"}


def test_a_contaminated_block_stays_and_is_measured_again_at_once(tmp_path: Path) -> None:
    # Blocks of ortmodule in launch 1: two of the warm-up, then the rounds.
    run = Simulated(tmp_path, {"ortmodule": {"disturbed": {(1, 4): 0.5}}})
    first = [row for row in run.of("ortmodule") if row["launch"] == "1"]
    assert [(row["round"], row["attempt"], row["status"]) for row in first] == [
        ("1", "1", "ok"),
        ("2", "1", "invalid"),
        ("2", "2", "ok"),
        ("3", "1", "ok"),
    ]
    assert "other processes had" in first[1]["message"]
    assert first[1]["seconds"]
    assert run.failures == []


def test_a_block_is_not_measured_again_for_ever(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"cpu_share": 1.5}})
    rows = run.of("ortmodule")
    assert {row["status"] for row in rows} == {"invalid"}
    assert len(rows) == 2 * (3 + 2), "two launches of three rounds, two repeats in each"
    (failure,) = run.failures
    assert failure == "invalid, and therefore not compared: ortmodule"


def launches_of(run: Simulated) -> int:
    return max(int(row["launch"]) for row in run.rows)


@pytest.mark.parametrize(
    ("slower", "settings", "launches"),
    [
        (1.2, {}, 2),  # no goal: as many as were asked for
        (1.0, {"target_half_width": 0.01}, 2),  # a goal that is reached already
        (1.5, {"target_half_width": 0.001, "max_launches": 4}, 4),  # the cap
        (1.0, {"target_half_width": 0.2, "launches": 1}, 2),  # one launch is never narrow enough
    ],
)
def test_launches_are_added_only_towards_a_goal_and_up_to_their_cap(
    tmp_path: Path, slower: float, settings: dict[str, Any], launches: int
) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"launches": {1: slower}}}, **settings)
    assert launches_of(run) == launches


def test_launches_are_added_until_every_interval_is_narrow_enough(tmp_path: Path) -> None:
    # The first launch differs by 1 %: intervals narrow down as further launches agree.
    run = Simulated(tmp_path, {"ortmodule": {"launches": {1: 1.01}}}, target_half_width=0.01)
    frame = run.comparison.shared.ledger.rows()
    assert 2 < launches_of(run) < 6
    reached, before = widest_half_width(frame), widest_half_width(frame[frame["launch"] < launches_of(run)])
    assert reached is not None
    assert before is not None
    assert reached <= 0.01 < before


def test_a_goal_without_any_speed_up_ends_at_once(tmp_path: Path) -> None:
    crash = ("crashed", "gone", "")
    fails = {"fails": {("build", launch, 1): crash for launch in range(1, 7)}}
    run = Simulated(tmp_path, {"ortmodule": fails, "ortmodule_zero1": fails}, target_half_width=0.01)
    assert launches_of(run) == 2


def test_the_record_holds_every_phase_and_why_a_figure_is_missing(faultless: Simulated) -> None:
    record = faultless.comparison.shared.ledger.records[1, "ortmodule"]
    assert record.setup is not None
    assert record.first_step is not None
    assert [len(block.seconds) for block in record.warm_up] == [2, 2]
    assert record.absent == {"device": "there is no GPU", "rank 0": "so it says", "rank 1": "so it says"}
    saved = json.loads(
        (faultless.comparison.shared.output.folder_of("ortmodule", timed(1)) / "record.json").read_text()
    )
    assert saved["absent"] == record.absent
    assert saved["blocks"][0]["attempt"] == 1
    assert saved["stage"] == "timed"


def test_the_slow_second_step_is_a_warm_up_block_of_its_own(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule": {"second_step": 0.5}, "ortmodule_zero1": {"settled": False}})
    steps = {
        name: [block.steps for block in record.warm_up]
        for (launch, name), record in run.comparison.shared.ledger.records.items()
        if launch == 1
    }
    assert steps == {"pytorch": [1, 2], "ortmodule": [1, 2, 2], "ortmodule_zero1": [1, *[2] * 6]}


def test_groups_warm_up_in_turn_once_all_are_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def noted(self: FakeGroup, request: Any, sampler: object = None) -> list[Any]:
        if self.launch == 2 and isinstance(request, TimeBlock):
            asked.append((self.spec.backend, request.steps))
        return original(self, request, sampler)

    original = FakeGroup.request
    monkeypatch.setattr(FakeGroup, "request", noted)
    Simulated(tmp_path, {"ortmodule": {"second_step": 0.5}})
    assert sorted(asked[:3]) == sorted((name, 1) for name in BACKENDS), "the second step of each set-up"
    assert sorted(asked[3:6]) == sorted((name, 2) for name in BACKENDS)
    assert asked[6] == ("ortmodule", 2), "the others are warm"
    assert sorted(name for name, _ in asked[7:10]) == sorted(BACKENDS), "the first round"


def test_the_coordinator_leaves_the_ranks_cores_where_there_are_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves: list[set[int]] = []
    monkeypatch.setattr("os.sched_setaffinity", lambda _, cores: moves.append(set(cores)))
    with leaving_the_ranks_cores([(0,)]):
        assert moves == [{1}]
    assert moves == [{1}, {0, 1}]
    with leaving_the_ranks_cores([(0,), (1,)]):
        assert moves == [{1}, {0, 1}], "there is nowhere else to go"


def test_a_comparison_leaves_csv_table_and_figure_and_names_the_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = {name: {"step_seconds": 0.5} for name in BACKENDS}
    scripts["ortmodule"]["fails"] = {("build", 2, 1): ("timeout", "too slow", "")}  # type: ignore[assignment]
    monkeypatch.setattr(
        coordinator,
        "Comparison",
        lambda config, stem, **given: Comparison(
            config, stem, start_group=cast(Any, starter(scripts, [])), **given
        ),
    )
    config = a_config(tmp_path)
    failures = measure_and_report(config, "m-cpux2")
    assert failures == ["ortmodule, launch 2/2: timeout: too slow"]
    with (tmp_path / "results" / "m-cpux2.csv").open(encoding="utf-8", newline="") as file:
        first = next(csv.DictReader(file))
    assert json.loads(first["overrides"]) == overrides_of(config)
    assert first["command"] == command_with(overrides_of(config), stacks.own())
    written = {path.name for path in (tmp_path / "reports").iterdir()}
    assert written >= {"index.md", "index.html", "speedup.svg"}
    block = capsys.readouterr().out
    assert block.lstrip().startswith("As fast as pytorch: ortmodule_zero1 1.00× [1.000, 1.000]; without a ")
    assert block.index("samples/s") < block.index(f"files: {tmp_path}/results/m-cpux2.csv\n")
    assert "index.html#m-cpux2\n" in block


def test_the_largest_batch_is_refused_without_the_study_that_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else rows would be called what they are not."""
    made = a_config(tmp_path)
    check_studies(made)
    made.measure.batch = "max"
    monkeypatch.setattr(preflight, "find_studies", dict)
    with pytest.raises(UserError, match=r"measure\.batch=max is answered by no study .*; leave it out"):
        check_studies(made)
