"""Whether a backend comes to a target sooner: known courses, verdicts, what the page and the figure say."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.config.compose import compose
from bench.errors import UserError
from bench.machine.environment import hash_environment
from bench.report.closing_words import whole_answer
from bench.report.content.collection import ReportedComparison, read_comparison
from bench.statistics.intervals import Amount, Speedup
from bench.studies.converge.convergence import Convergence, find_convergence, judge_difference
from bench.studies.converge.figures import draw_convergence, planned_figures
from bench.studies.converge.section import convergence_of
from bench.studies.converge.table import TABLE
from tests.support.factories import ENVIRONMENT, comparison, failed
from tests.support.reports import render_comparison, svg_texts
from tests.support.result_files import table_of_records, write_records

FALLING = (5.0, 4.0, 3.0, 2.0)
"""Reaches 3 at the third evaluation, after 20 steps."""

SLOWER_FALLING = (5.0, 4.0, 3.5, 2.5)
"""Reaches 3 at the fourth."""

ABOVE = (5.0, 4.5, 4.0, 3.5)

Losses = Mapping[str, Sequence[Sequence[float]]]

SECONDS = {"pytorch": 1.0, "ortmodule": 0.8, "ortmodule_zero1": 2.0}
"""Of a step."""


def followed(losses: Losses, **changes: object) -> pd.DataFrame:
    """Held-out losses of every backend's launches, each after ten more steps; set-up takes 5 s."""
    return pd.DataFrame(
        [
            {
                "started_at": "2026-11-25T12:00:00+00:00",
                "git_commit": "0123",
                "config_hash": "c0ffee",
                "environment_hash": hash_environment(ENVIRONMENT),
                "backend": backend,
                "stack": "ort",
                "launch": launch,
                "seed": 2 * launch,
                "evaluation": number,
                "steps": 10 * number,
                "seconds": 10 * number * SECONDS[backend],
                "seconds_with_start": 10 * number * SECONDS[backend] + 5,
                "disturbed": 0,
                "held_out_loss": loss,
                "target_loss": 3.0,
                "margin_loss": 0.05,
            }
            | changes
            for backend, launches in losses.items()
            for launch, course in enumerate(launches, start=1)
            for number, loss in enumerate(course)
        ],
        columns=list(TABLE.columns),
    )


def rows_of(*backends: str) -> pd.DataFrame:
    return table_of_records(comparison({name: [[2.0], [2.0]] for name in backends}))


def found(losses: Losses, table: pd.DataFrame | None = None, **statuses: str) -> Convergence:
    table = followed(losses) if table is None else table
    return find_convergence(table, "pytorch", dict.fromkeys(losses, "ok") | statuses)


def reported(losses: Losses) -> ReportedComparison:
    return ReportedComparison(stem="m", rows=rows_of(*losses), beside={TABLE.kind: followed(losses)})


# --- arithmetic -----------------------------------------------------------------------------------


def ratio(speedup: Speedup | None) -> float | None:
    return speedup.ratio if speedup else None


def value(amount: Amount | None) -> float | None:
    return amount.value if amount else None


def test_the_target_is_reached_at_the_first_look_that_is_not_above_it() -> None:
    pytorch, ortmodule = found({"ortmodule": [FALLING] * 3, "pytorch": [FALLING] * 3}).backends
    assert (pytorch.backend, ortmodule.backend) == ("pytorch", "ortmodule"), "the reference first"
    assert (pytorch.reached, pytorch.launches) == (3, 3)
    for one, seconds in ((pytorch, 20.0), (ortmodule, 16.0)):
        assert (value(one.seconds), value(one.with_start), value(one.steps)) == (seconds, seconds + 5, 20)
    assert pytorch.sooner is None, "the reference has nothing to be compared with"
    assert ratio(ortmodule.sooner) == pytest.approx(1.25)
    assert ratio(ortmodule.sooner_with_start) == pytest.approx(25 / 21)
    assert ratio(ortmodule.fewer_steps) == pytest.approx(1.0)
    assert ortmodule.verdict == "equivalent"


def test_a_faster_backend_that_needs_more_steps_is_exposed() -> None:
    _, ortmodule = found({"pytorch": [FALLING] * 2, "ortmodule": [SLOWER_FALLING] * 2}).backends
    assert ratio(ortmodule.fewer_steps) == pytest.approx(20 / 30)
    assert ratio(ortmodule.sooner) == pytest.approx(20 / 24), "a fifth faster, and later all the same"
    assert ortmodule.verdict == "different"
    assert value(ortmodule.difference) == pytest.approx(0.5)


def test_launches_are_paired_and_their_variation_is_in_the_interval() -> None:
    one = followed({"pytorch": [FALLING] * 3, "ortmodule": [FALLING] * 3})
    slow = one["launch"] == 2
    one.loc[slow, "seconds"] = 3 * one.loc[slow, "seconds"]  # both sides alike: the machine was slow
    _, ortmodule = found({"pytorch": [FALLING] * 3, "ortmodule": [FALLING] * 3}, one).backends
    assert ortmodule.sooner is not None
    assert (ortmodule.sooner.low, ortmodule.sooner.high) == pytest.approx((1.25, 1.25))
    assert ortmodule.seconds is not None
    assert (ortmodule.seconds.half or 0) > 1


@pytest.mark.parametrize("short", ["pytorch", "ortmodule"])
def test_there_is_no_ratio_unless_both_came_there_in_every_launch(short: str) -> None:
    losses = {"pytorch": [FALLING, FALLING], "ortmodule": [FALLING, FALLING]} | {short: [FALLING, ABOVE]}
    convergence = found(losses)
    mine = next(one for one in convergence.backends if one.backend == short)
    assert (mine.reached, mine.launches) == (1, 2)
    assert mine.seconds is mine.steps is mine.with_start is None
    (other,) = convergence.others
    assert other.sooner is other.fewer_steps is other.sooner_with_start is None
    assert other.difference is not None, "where it ended is known"


@pytest.mark.parametrize(
    ("differences", "margin", "verdict"),
    [
        # mean 0.02; half of the 90 % interval 2.1318 · 0.0070711 = 0.01507, of the 95 % one 0.01963
        ((0.0, 0.01, 0.02, 0.03, 0.04), 0.0352, "equivalent"),
        ((0.0, 0.01, 0.02, 0.03, 0.04), 0.0350, "different"),
        ((-0.01, 0.0, 0.02, 0.03, 0.04), 0.0350, "open"),
        ((0.01, -0.01, 0.0, 0.01, -0.01), 0.05, "equivalent"),
        ((-0.5, -0.51, -0.49), 0.05, "different"),
        ((0.1, -0.1, 0.2), 0.05, "open"),
        ((0.0, 0.0), 0.05, "equivalent"),
        ((0.0,), 0.05, "open"),
    ],
)
def test_final_losses_are_equivalent_different_or_open(
    differences: tuple[float, ...], margin: float, verdict: str
) -> None:
    assert judge_difference(np.array(differences), margin) == verdict


def test_what_was_interrupted_failed_or_there_from_the_beginning_has_no_ratio_of_its_own() -> None:
    losses: Losses = {"pytorch": [FALLING] * 3, "ortmodule": [FALLING, FALLING, FALLING[:2]]}
    ortmodule = found(losses).backends[1]
    assert (ortmodule.launches, ortmodule.reached, ortmodule.verdict) == (2, 2, "equivalent")
    assert ortmodule.sooner is not None
    _, other = found({"pytorch": [FALLING] * 2, "ortmodule": [FALLING] * 2}, ortmodule="crashed").backends
    assert (other.sooner, other.difference, other.verdict) == (None, None, None)
    _, other = found({"pytorch": [(2.0, 1.0)] * 2, "ortmodule": [(2.0, 1.0)] * 2}).backends
    assert (other.reached, other.sooner) == (2, None)


def test_a_launch_of_which_others_disturbed_more_than_a_third_is_left_out() -> None:
    losses = {"pytorch": [FALLING] * 3, "ortmodule": [FALLING, FALLING, ABOVE]}
    table = followed(losses)
    spoiled = (table["backend"] == "ortmodule") & (table["launch"] == 3)
    table.loc[spoiled & (table["evaluation"] == 1), "disturbed"] = 1
    assert found(losses, table).backends[1].launches == 3, "a third is not more than a third"
    table.loc[spoiled & (table["evaluation"] == 2), "disturbed"] = 1
    ortmodule = found(losses, table).backends[1]
    assert (ortmodule.launches, ortmodule.left_out, ortmodule.reached) == (2, 1, 2)
    assert ortmodule.sooner is not None
    assert ortmodule.sooner.launches == 2


# --- the file, the page, the figure ---------------------------------------------------------------


def test_the_file_can_be_read_again_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = TABLE.path_of(tmp_path / "m.csv")
    assert path == tmp_path / "m.converge.csv"
    table = followed({"pytorch": [FALLING] * 2, "ortmodule": [ABOVE] * 2}, seed=2**32 - 1)
    TABLE.write(path, table.to_dict("records"))
    pd.testing.assert_frame_equal(TABLE.read(path), table, check_dtype=False)
    path.write_text(path.read_text().replace("held_out_loss", "loss"))
    with pytest.raises(UserError, match=r"m\.converge\.csv cannot be read as held-out losses"):
        TABLE.read(path)


def test_a_comparison_is_read_with_its_held_out_losses(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    write_records(path, comparison({"pytorch": [[2.0], [2.0]]}))
    assert convergence_of(read_comparison(path)) is None
    losses = {"pytorch": [FALLING] * 2}
    for column in ("config_hash", "environment_hash"):  # of another comparison: nobody's
        others = followed(losses, **{column: "other"}).to_dict("records")
        TABLE.write(TABLE.path_of(path), others)
        assert convergence_of(read_comparison(path)) is None
    TABLE.write(TABLE.path_of(path), followed(losses).to_dict("records"))
    assert convergence_of(read_comparison(path)) is not None


def test_the_page_has_a_line_for_each_backend() -> None:
    page = render_comparison(
        reported({"pytorch": [FALLING] * 2, "ortmodule": [FALLING] * 2, "ortmodule_zero1": [ABOVE] * 2})
    )
    section = page[page.index("**Time to the target**") :]
    assert "Held-out loss to reach: 3. Margin of final losses: ± 0.05." in section
    (line,) = [line for line in section.splitlines() if line.startswith("| ortmodule |")]
    for words in ("| 2 of 2 launches | 16.00 ± 0.000 | 21.00", "1.250× [1.250, 1.250]", "equivalent: +0.000"):
        assert words in line
    (line,) = [line for line in section.splitlines() if line.startswith("| ortmodule_zero1 |")]
    assert "| 0 of 2 launches | not reached | not reached | not reached | – | – | – |" in line
    assert "different: +1.5" in line
    assert "Time to the target" not in render_comparison(
        ReportedComparison(stem="m", rows=rows_of("pytorch"))
    )


def test_the_command_ends_with_who_came_there_sooner() -> None:
    one = reported({"pytorch": [FALLING] * 2, "ortmodule": [FALLING] * 2, "ortmodule_zero1": [ABOVE] * 2})
    assert whole_answer(one).endswith(
        "Time to a held-out loss of 3, pytorch's over each: ortmodule 1.250× [1.250, 1.250], final loss "
        "equivalent; ortmodule_zero1 is not compared: it came there in 0 of 2 launches, or the reference not "
        "in all."
    )
    records = [*comparison({"pytorch": [[2.0], [2.0]]}), failed("ortmodule", "oom", "no memory")]
    beside = {TABLE.kind: followed({"pytorch": [FALLING] * 2, "ortmodule": [FALLING] * 2})}
    both = ReportedComparison(stem="m", rows=table_of_records(records), beside=beside)
    assert whole_answer(both).endswith("pytorch's over each: ortmodule has no result (oom).")


def test_only_a_comparison_that_was_followed_has_the_figure(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    one = reported({"pytorch": [FALLING, ABOVE], "ortmodule": [FALLING, SLOWER_FALLING]})
    planned = planned_figures([[one]], tmp_path)
    (write,) = [write for figure, write in planned if figure.path.name == "converge-m.svg"]
    write()
    texts = " ".join(svg_texts(tmp_path / "converge-m.svg"))
    for words in ("Held-out loss against time", "pytorch", "ortmodule", "seconds of training"):
        assert words in texts
    assert not recwarn.list
    without = ReportedComparison(stem="m", rows=rows_of("pytorch", "ortmodule"))
    planned = planned_figures([[without]], tmp_path)
    assert "converge-m.svg" not in [figure.path.name for figure, _ in planned]


def test_the_thick_line_is_the_median_over_launches() -> None:
    losses = {"pytorch": [FALLING, ABOVE, SLOWER_FALLING]}
    (axes,) = draw_convergence(reported(losses)).axes
    lines = {line.get_label(): line for line in axes.lines}
    assert np.asarray(lines["pytorch"].get_ydata()).tolist() == [5.0, 4.0, 3.5, 2.5]
    assert np.asarray(lines["pytorch"].get_xdata()).tolist() == [0, 10, 20, 30]
    assert len(axes.lines) == 3 + 1 + 1, "three launches, their median, the target"


def test_a_module_of_the_users_own_has_no_held_out_data() -> None:
    with pytest.raises(UserError, match="has none; leave measure=converge out"):
        compose(["model.module=net.py:Net", "measure=converge"])
