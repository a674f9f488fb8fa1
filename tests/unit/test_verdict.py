"""What `make bench` shows while it measures: an answer after each launch, how long the rest takes."""

import itertools
from pathlib import Path

import pytest

from bench.measure.record.progress import describe_duration
from bench.measure.stages.stage import Pace
from tests.support.comparisons import Resumable, Simulated
from tests.support.configs import BACKENDS

pytestmark = pytest.mark.usefixtures("two_cores")


# An answer after each launch


def test_after_each_launch_every_backend_has_its_speed_up_so_far(tmp_path: Path) -> None:
    crash = ("oom", "no memory left", "")
    run = Simulated(tmp_path, {"ortmodule_zero1": {"fails": {("block", 2, 3): crash}}}, launches=3)
    first, second, third = [line for line in run.printed if line.startswith("after launch")]
    assert first.startswith("after launch 1/3, over pytorch (")
    assert first.endswith(
        "to come): ortmodule 1.250× (one launch: no interval yet); "
        "ortmodule_zero1 0.625× (one launch: no interval yet)"
    )
    assert second.endswith("ortmodule 1.250× [1.250, 1.250]; ortmodule_zero1 oom")
    assert third.startswith("after launch 3/3, over pytorch (about 0 s to come)")


def test_a_backend_alone_has_no_answer_so_far(tmp_path: Path) -> None:
    only = {"pytorch": BACKENDS["pytorch"]}
    run = Resumable(tmp_path, backends=only)
    assert run.rows
    assert not any(line.startswith("after launch") for line in run.printed)


# How long it takes


class SteppingClock:
    """Each look at it takes a second."""

    def __init__(self) -> None:
        self.count = itertools.count()

    def __call__(self) -> float:
        return float(next(self.count))


def test_how_long_it_takes_is_said_once_after_the_parity_launch(tmp_path: Path) -> None:
    run = Simulated(tmp_path, clock=SteppingClock())
    lines = [line for line in run.printed if "until the verdict" in line]
    assert len(lines) == 1
    assert run.printed.index(lines[0]) < next(
        place for place, line in enumerate(run.printed) if line.startswith("after launch")
    )
    # Steps of 0.5, 0.4 and 0.8 s, and blocks of three. In either launch: a start of 1 s, and for each backend
    # what comes before the second step, it, 2.3 warm-up blocks of two, and three rounds. In parity the
    # reference was built in 1 s and the two others together in 1 s; training took no longer than its steps.
    pace = run.comparison.shared.pace
    assert pace.steps == pytest.approx({"pytorch": 0.5, "ortmodule": 0.4, "ortmodule_zero1": 0.8})
    assert (pace.starts, pace.set_ups) == ([1.0], [1.0, 0.5, 0.5])
    step = (0.5 + 0.4 + 0.8) / 3
    expected = 2 * (1 + 3 * (0.5 + step + 0.15 + 2.3 * (2 * step + 0.15) + 3 * (3 * step + 0.15)))
    assert lines == [f"{describe_duration(expected)} until the verdict"]


def test_a_backend_that_parity_refuses_takes_no_time_afterwards(tmp_path: Path) -> None:
    run = Simulated(tmp_path, {"ortmodule_zero1": {"loss": 9.0}}, clock=SteppingClock())
    (line,) = (line for line in run.printed if "until the verdict" in line)
    step = (0.5 + 0.4 + 0.8) / 3
    expected = 2 * (1 + 2 * (0.5 + step + 0.15 + 2.3 * (2 * step + 0.15) + 3 * (3 * step + 0.15)))
    assert line == f"{describe_duration(expected)} until the verdict"


def test_a_first_start_that_reads_its_files_anew_is_no_measure_of_later_ones() -> None:
    assert Pace(starts=[1.0], set_ups=[77.0]).set_up == 77.0, "nothing else is known"
    pace = Pace(starts=[5.0, 1.0, 2.0], set_ups=[77.0, 30.0, 32.0], steps={"pytorch": 0.5})
    assert (pace.start, pace.set_up, pace.warm_up(2)) == (4.5, 31.0, 32.0)
    assert Pace(set_ups=[10.0, 30.0]).set_up == 20.0, "the reference does less than others"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "some minutes"), (0.2, "about 0 s"), (59.6, "about 1 min 0 s"), (270, "about 4 min 30 s")],
)
def test_a_duration_is_said_in_minutes_and_seconds(seconds: float | None, words: str) -> None:
    assert describe_duration(seconds) == words
