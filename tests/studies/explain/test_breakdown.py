"""Where a step's time goes: rows, their file, differences, sentences."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.errors import UserError
from bench.machine.environment import hash_environment
from bench.report.content.collection import Collection, ReportedComparison, read_comparison
from bench.report.figures.plan import planned_figures
from bench.studies.explain import operator_kinds
from bench.studies.explain.breakdown import Difference, break_down, explain_difference
from bench.studies.explain.operator_kinds import HOST, Operator, ProfiledRound
from bench.studies.explain.section import make_closing, make_notes
from bench.studies.explain.stage import FEWEST_ROUNDS, MOST_ROUNDS, MOST_WARMUPS, SETTLED_WARMUPS
from bench.studies.explain.table import TABLE
from tests.support.comparisons import Resumable, Simulated
from tests.support.configs import BACKENDS
from tests.support.factories import ENVIRONMENT, comparison
from tests.support.reports import render_comparison
from tests.support.result_files import write_records

STEPS = 4

JITTER = (0.99, 1.01, 1.0, 1.0)
"""Of the rounds' seconds."""


def rounds(**milliseconds: float) -> list[ProfiledRound]:
    """Four rounds of `STEPS` steps, by operator; `host` stands for none."""
    names = {"mm": "aten::mm", "loss": "aten::_log_softmax", "host": HOST}

    def operator(name: str, seconds: float) -> Operator:
        return Operator(library="torch", name=names[name], part="", calls=STEPS, seconds=seconds)

    made = []
    for jitter in JITTER:
        seconds = {name: STEPS * jitter * spent / 1e3 for name, spent in milliseconds.items()}
        operators = [operator(*one) for one in seconds.items()]
        made.append(ProfiledRound(steps=STEPS, seconds=sum(seconds.values()), operators=operators))
    return made


def rows_of(backend: str, *ranks: list[ProfiledRound], **changes: str) -> list[dict[str, Any]]:
    described = {
        "started_at": "2026-11-20T12:00:00Z",
        "git_commit": "0123",
        "config_hash": "c0ffee",
        "environment_hash": hash_environment(ENVIRONMENT),
        "backend": backend,
        "stack": "ort",
    }
    return operator_kinds.rows_of_profile(list(ranks), described=described | changes)


def reported(folder: Path, rows: list[dict[str, Any]]) -> ReportedComparison:
    """Steps of 200 and 150 ms, as timed, and these rows."""
    path = folder / "x.csv"
    write_records(
        path, comparison({"pytorch": [[2.0, 2.0], [2.0, 2.0]], "ortmodule": [[1.5, 1.5], [1.5, 1.5]]})
    )
    TABLE.write(TABLE.path_of(path), rows)
    return read_comparison(path)


BOTH = [
    *rows_of("pytorch", rounds(mm=150, loss=40, host=20)),
    *rows_of("ortmodule", rounds(mm=90, loss=52, host=10)),
]


def test_a_row_is_the_mean_over_ranks_of_one_step_of_a_round() -> None:
    rows = rows_of("pytorch", rounds(mm=10), rounds(mm=30))
    assert [row["round"] for row in rows] == [1, 2, 3, 4]
    assert [row["seconds_per_step"] for row in rows] == pytest.approx([0.0198, 0.0202, 0.020, 0.020])
    assert [row["profiled_step_s"] for row in rows] == pytest.approx([0.0198, 0.0202, 0.020, 0.020])
    mm = rows[0]
    assert mm["calls_per_step"] == 1
    assert (mm["kind"], mm["operator"]) == ("matrix products", "aten::mm")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    TABLE.write(tmp_path / "x.csv", BOTH)
    read = TABLE.read(tmp_path / "x.csv").to_dict("records")
    for row, written in zip(read, BOTH, strict=True):
        for column in ("seconds_per_step", "profiled_step_s"):
            assert row.pop(column) == pytest.approx(written[column], rel=1e-5)
        assert row.items() <= written.items()


@pytest.mark.parametrize("damage", ["", "kind,operator\nhost,x\n", "\x00"])
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path: Path, damage: str) -> None:
    (tmp_path / "x.csv").write_text(damage)
    with pytest.raises(UserError, match="cannot be read as a breakdown"):
        TABLE.read(tmp_path / "x.csv")


def explained(one: ReportedComparison) -> Difference:
    """Of the second backend's step from the first's."""
    base, other = break_down(one)
    difference = explain_difference(other, base)
    assert difference is not None
    return difference


def test_kinds_differences_and_what_they_do_not_explain(tmp_path: Path) -> None:
    one = reported(tmp_path, BOTH)
    torch, ort = break_down(one)
    assert torch.timed_s == pytest.approx(0.2)
    assert torch.cost == pytest.approx(0.21 / 0.2)
    assert torch.covered == pytest.approx(190 / 210)
    difference = explained(one)
    assert difference.timed.value == pytest.approx(-0.05)
    assert [kind for kind, _ in difference.kinds] == ["matrix products", "loss", "host"]
    assert [amount.value for _, amount in difference.kinds] == pytest.approx([-0.06, 0.012, -0.01])
    assert difference.remainder.value == pytest.approx(-0.05 + 0.058)
    assert torch.samples is not None
    larger = replace(ort, samples=2 * torch.samples)  # as with `measure.batch=max`
    assert explain_difference(larger, torch) is None, "steps of two batches have no difference"


def test_of_backends_that_were_profiled_apart_the_rounds_that_both_have_are_compared(tmp_path: Path) -> None:
    """Where groups do not live side by side, as on GPUs, quicker steps are profiled in more rounds."""
    more = [*rounds(mm=90), *rounds(mm=900)]
    one = reported(tmp_path, [*rows_of("pytorch", rounds(mm=150)), *rows_of("ortmodule", more)])
    assert explained(one).of(["matrix products"]).value == pytest.approx(-0.06)


def test_an_interval_is_student_s_over_rounds_paired_and_corrected_for_the_number_of_kinds(
    tmp_path: Path,
) -> None:
    difference = explained(reported(tmp_path, BOTH))
    differences = -0.06 * np.array(JITTER)
    error = differences.std(ddof=1) / 2
    (_, products), *_ = difference.kinds
    assert products.half == pytest.approx(4.857 * error, rel=1e-3)  # t, 3 degrees of freedom, 1 - 0.025 / 3
    assert difference.of(["matrix products"]).half == pytest.approx(3.182 * error, rel=1e-3)
    # The timed steps hardly scatter, so that what is left over scatters as the profiled ones do.
    total = difference.of(difference.rounds).half
    assert total is not None
    assert difference.remainder.half == pytest.approx(total, rel=1e-3)


def why(one: ReportedComparison) -> str:
    ((name, words),) = make_closing(one)
    assert name == "ortmodule"
    return words


def test_a_line_names_what_differs_most_and_how_far_the_profile_can_be_trusted(tmp_path: Path) -> None:
    one = reported(tmp_path, BOTH)
    words = "of 200 ms/step matrix products −60 ± 1, loss +12.0 ± 0.2, host −10.0 ± 0.2 ms"
    assert why(one) == words
    trust = "pytorch 1.05 of the timed step, 90 % covered; ortmodule 1.01 of the timed step, 93 % covered"
    assert make_notes(one) == [("ortmodule", words), ("profiled step", trust)]
    page = render_comparison(one)
    assert f"ortmodule: {words}" in page
    assert f"profiled step: {trust}" in page


def test_what_may_be_chance_is_not_named(tmp_path: Path) -> None:
    """Every second round takes the reference a tenth longer: the mean of its products says nothing."""
    slow, quick = rounds(mm=150, loss=40), rounds(mm=130, loss=40)
    drifting = [slow[0], quick[1], slow[2], quick[3]]
    one = reported(tmp_path, [*rows_of("pytorch", drifting), *rows_of("ortmodule", rounds(mm=130, loss=52))])
    assert "/step loss +12.0 ± 0.2 ms" in why(one)
    assert "matrix products" not in why(one)
    (tmp_path / "alike").mkdir()
    alike = [*rows_of("pytorch", drifting), *rows_of("ortmodule", rounds(mm=130, loss=40))]
    words = "no kind of work differs for sure, maybe matrix products −10 ± 24 ms"
    assert words in why(reported(tmp_path / "alike", alike))


def test_of_what_may_be_chance_the_largest_is_named_if_it_is_larger_than_what_is_sure(tmp_path: Path) -> None:
    """Else the line would say that other work makes the difference."""
    slow, quick = rounds(mm=190, loss=40), rounds(mm=130, loss=40)
    drifting = [slow[0], quick[1], slow[2], quick[3]]
    one = reported(tmp_path, [*rows_of("pytorch", drifting), *rows_of("ortmodule", rounds(mm=130, loss=52))])
    assert why(one) == "of 200 ms/step maybe matrix products −30 ± 72, loss +12.0 ± 0.2 ms"


def test_a_profiled_step_that_is_not_the_timed_one_explains_nothing(tmp_path: Path) -> None:
    slow = [*rows_of("pytorch", rounds(mm=150, loss=40)), *rows_of("ortmodule", rounds(mm=90, loss=105))]
    one = reported(tmp_path, slow)
    assert why(one) == "why is not known, since the profiled step of ortmodule is too far from the timed one"
    assert "ortmodule 1.30 of the timed step" in make_notes(one)[-1][1]
    without = ReportedComparison(stem="x", rows=one.rows)
    assert make_notes(without) == []
    drawn = [
        [figure.path.stem for figure, _ in planned_figures(Collection(comparisons=[each]), Path())]
        for each in (one, without)
    ]
    assert ["breakdown" in names for names in drawn] == [True, False]
    (tmp_path / "alike").mkdir()
    alike = [*rows_of("pytorch", rounds(mm=150, loss=40)), *rows_of("ortmodule", rounds(mm=145, loss=42))]
    assert why(reported(tmp_path / "alike", alike)).endswith("; not explained −47.0 ± 0.0 ms")


@pytest.mark.parametrize("column", ["config_hash", "environment_hash"])
def test_a_profile_of_another_configuration_or_environment_explains_nothing(
    tmp_path: Path, column: str
) -> None:
    one = reported(tmp_path, rows_of("pytorch", rounds(mm=94), **{column: "other"}))
    assert make_notes(one) == []


@pytest.mark.parametrize(("step_seconds", "rounds"), [(0.1, MOST_ROUNDS), (0.6, 5), (20.0, FEWEST_ROUNDS)])
def test_every_backend_is_profiled_in_turns_after_the_timed_launches(
    tmp_path: Path, step_seconds: float, rounds: int
) -> None:
    scripts = {name: {"step_seconds": step_seconds} for name in ("pytorch", "ortmodule", "ortmodule_zero1")}
    run = Simulated(tmp_path, scripts, explain=True)
    assert run.failures == []
    table = TABLE.read(TABLE.path_of(run.comparison.shared.output.csv))
    assert list(dict.fromkeys(table["backend"])) == ["pytorch", "ortmodule", "ortmodule_zero1"]
    pytorch = table[table["backend"] == "pytorch"]
    assert set(pytorch["round"]) == {*range(1, 1 + rounds)}
    first = pytorch[pytorch["round"] == 1]
    assert first["seconds_per_step"].sum() == pytest.approx(first["profiled_step_s"].iloc[0])
    assert [group.spec.backend for group in run.groups[-3:]] == ["pytorch", "ortmodule", "ortmodule_zero1"]
    assert all(group.spec.profiled_groups and group.closed for group in run.groups[-3:])
    assert not any(group.spec.profiled_groups for group in run.groups[:-3])
    assert all(group.counts["profile"] == SETTLED_WARMUPS + rounds for group in run.groups[-3:])


@pytest.mark.parametrize(("settled_after", "warm_ups"), [(3, 2 + SETTLED_WARMUPS), (1_000, MOST_WARMUPS)])
def test_steps_are_profiled_in_vain_until_they_take_no_new_memory_or_long_enough(
    tmp_path: Path, settled_after: int, warm_ups: int
) -> None:
    run = Simulated(tmp_path, {"pytorch": {"settled_after": settled_after}}, explain=True)
    counts = {group.spec.backend: group.counts["profile"] for group in run.groups[-3:]}
    assert counts["pytorch"] - counts["ortmodule"] == warm_ups - SETTLED_WARMUPS


@pytest.mark.parametrize(
    "when", [("profile", 0, 1), ("profile", 0, 4), ("finish_profile", 0, 1), ("block", 2, 3)]
)
def test_what_cannot_be_profiled_or_timed_leaves_no_row(tmp_path: Path, when: tuple[str, int, int]) -> None:
    crash = ("crashed", "rank 0 was killed by SIGKILL", "")
    run = Simulated(tmp_path, {"ortmodule": {"fails": {when: crash}}}, explain=True)
    table = TABLE.read(TABLE.path_of(run.comparison.shared.output.csv))
    assert set(table["backend"]) == {"pytorch", "ortmodule_zero1"}
    if when[0] != "block":
        assert run.failures == []
        assert "no breakdown of ortmodule: rank 0 was killed by SIGKILL" in run.printed
        assert {row["status"] for row in run.rows} == {"ok"}


def test_only_the_profiles_are_made_again_where_one_is_missing(tmp_path: Path) -> None:
    measure = {"explain": True}
    without: dict[str, Any] = {"ortmodule": {"fails": {("profile", 0, 4): ("crashed", "gone", "")}}}
    first = Resumable(tmp_path, without, measure=measure)
    table = TABLE.path_of(first.comparison.shared.output.csv)
    assert set(TABLE.read(table)["backend"]) == {"pytorch", "ortmodule_zero1"}
    second = Resumable(tmp_path, measure=measure, resume=True)
    assert [group.spec.backend for group in second.groups if group.spec.profiled_groups] == list(BACKENDS)
    assert {group.launch for group in second.groups if not group.spec.profiled_groups} == {0}, "parity alone"
    assert set(TABLE.read(table)["backend"]) == set(BACKENDS)
    assert second.rows == first.rows
    assert Resumable(tmp_path, measure=measure, resume=True).groups == []


def test_where_launches_are_added_nothing_is_profiled_again(tmp_path: Path) -> None:
    explained = {"explain": True}
    Resumable(tmp_path, measure=explained)
    run = Resumable(tmp_path, resume=True, measure={"launches": 4, **explained})
    assert {group.launch for group in run.groups} == {0, 3, 4}
    assert not [group for group in run.groups if group.spec.profiled_groups]


def test_what_others_spoiled_for_every_backend_is_not_explained(tmp_path: Path) -> None:
    spoiled = {
        name: {"disturbed": {(launch, nth): 0.5 for launch in (1, 2) for nth in range(40)}}
        for name in BACKENDS
    }
    run = Simulated(tmp_path, spoiled, explain=True)
    assert {row["status"] for row in run.rows} == {"invalid"}
    assert not TABLE.path_of(run.comparison.shared.output.csv).exists()


def test_collectives_do_not_wait_for_it(tmp_path: Path) -> None:
    stages = [
        type(stage).__name__
        for stage in Simulated(tmp_path, explain=True, collectives="count").comparison.stages
    ]
    assert "Collectives" in stages
    assert stages[-1] == "Profiles"
