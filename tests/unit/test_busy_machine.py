"""Other processes on the cores: who they are, waiting for them, and what is said."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.machine.telemetry.other_processes import (
    Competitor,
    CoreScan,
    Process,
    describe_competitors,
    find_competitors,
    own_processes,
    read_processes,
)
from bench.measure.groups.busy_cores import QuietCores, describe_repeats
from tests.support.comparisons import RecordingBar, Simulated
from tests.support.factories import block, record
from tests.support.fakes import Script

pytestmark = pytest.mark.usefixtures("two_cores")

CHROME = Competitor(name="chrome", pid=123, cores=0.8)
MAKE = Competitor(name="make", pid=7, cores=0.25)


class FakeScan:
    """Sees on each call the next of `taken`, and in the end the last one for ever; counts its calls."""

    def __init__(
        self, taken: Sequence[float | None], competitors: tuple[Competitor, ...] = (CHROME,)
    ) -> None:
        self.taken = list(taken)
        self.competitors = competitors
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> CoreScan:
        self.seconds.append(seconds)
        taken = self.taken.pop(0) if len(self.taken) > 1 else self.taken[0]
        return CoreScan(taken_seconds=taken, competitors=self.competitors if taken else ())


# Who it is


def test_takers_are_those_whose_cpu_time_grew_the_largest_first() -> None:
    before = {(1, 0.0): Process("init", 50.0), (7, 1.0): Process("make", 3.0), (9, 1.0): Process("us", 0.0)}
    after = {
        (1, 0.0): Process("init", 50.01),
        (7, 1.0): Process("make", 3.5),
        (9, 1.0): Process("us", 2.0),
        (123, 5.0): Process("chrome", 1.6),  # it has started since
    }
    found = find_competitors(before, after, 2.0, lambda pid: pid == 9)
    assert found == (CHROME, MAKE)
    assert describe_competitors(found) == "chrome (pid 123) 80 % of a core, make (pid 7) 25 % of a core"
    assert describe_competitors(()) == "which ones cannot be seen from here"


def test_a_process_that_got_an_ended_one_s_id_is_another_process() -> None:
    before, after = {(7, 1.0): Process("make", 9.0)}, {(7, 2.0): Process("tar", 0.5)}
    assert find_competitors(before, after, 1.0, lambda _: False) == (
        Competitor(name="tar", pid=7, cores=0.5),
    )


def test_this_process_is_seen_and_is_one_of_ours() -> None:
    assert os.getpid() in own_processes()
    assert os.getpid() in {pid for pid, _ in read_processes()}


# Waiting


def quiet_cores(scan: FakeScan, wait_s: float) -> tuple[QuietCores, list[str]]:
    bar = RecordingBar()
    return QuietCores(2, wait_s, scan, bar), bar.printed


@pytest.mark.parametrize(
    ("taken", "wait_s", "looks"),
    [(0.09, 60, 1), (None, 60, 1), (0.8, 0, 0)],  # of 2 core seconds 0.1 may be taken
)
def test_where_cores_are_quiet_or_nobody_can_tell_or_is_to_wait_nothing_is_said(
    taken: float | None, wait_s: float, looks: int
) -> None:
    scan = FakeScan([taken])
    quiet, printed = quiet_cores(scan, wait_s)
    quiet.wait("launch 1/4")
    assert (len(scan.seconds), printed) == (looks, [])


def test_it_waits_until_others_are_done() -> None:
    scan = FakeScan([0.8, 0.8, 0.2, 0.0])
    quiet, printed = quiet_cores(scan, 60)
    quiet.wait("launch 1/4")
    assert len(scan.seconds) == 4
    (line,) = printed
    assert "launch 1/4: waiting up to 59 s for other processes on the cores: chrome (pid 123) 80 %" in line


def test_it_goes_on_when_the_time_of_all_launches_together_is_used_up() -> None:
    scan = FakeScan([0.8, 0.8, 0.0, 0.8])
    quiet, printed = quiet_cores(scan, 5)
    quiet.wait("launch 1/4")
    quiet.wait("launch 2/4")
    assert len(scan.seconds) == 3 + 3, "two of five seconds are gone after launch 1"
    assert printed[-1] == (
        "launch 2/4: goes on after measure.wait_s=5 seconds, although other processes still have the cores: "
        "chrome (pid 123) 80 % of a core"
    )
    quiet.wait("launch 3/4")
    assert len(scan.seconds) == 6


def test_the_first_launch_waits_and_each_that_follows_a_disturbed_one(tmp_path: Path) -> None:
    quiet, disturbed = FakeScan([0.0]), FakeScan([0.0])
    Simulated(tmp_path / "quiet", scan=quiet, wait_s=60.0, launches=3)
    assert quiet.seconds == [1.0]
    others: dict[str, Script] = {"ortmodule": {"disturbed": {(1, 4): 0.5}}}
    Simulated(tmp_path / "disturbed", others, scan=disturbed, wait_s=60.0, launches=3)
    assert disturbed.seconds == [1.0, 0.3, 1.0], "launch 1, its disturbed block, launch 2; not launch 3"


# What is said


def test_a_line_per_launch_counts_the_repeats_and_names_the_processes(tmp_path: Path) -> None:
    changes: dict[str, Script] = {"ortmodule": {"disturbed": {(1, 4): 0.5, (1, 5): 0.5, (2, 3): 0.5}}}
    scan = FakeScan([0.8])
    run = Simulated(tmp_path, changes, scan=scan)
    who = "since other processes had the cores: chrome (pid 123) 80 % of a core"
    assert [line for line in run.printed if "again" in line] == [
        f"launch 1/2: 2 blocks measured again, {who}",
        f"launch 2/2: 1 block measured again, {who}",
    ]
    assert scan.seconds == [0.3] * 3, "one looks only after a block that others spoiled"


def test_blocks_spoiled_by_something_else_need_no_look(tmp_path: Path) -> None:
    scan = FakeScan([0.8])
    run = Simulated(tmp_path, {"ortmodule": {"cpu_share": 1.5}}, scan=scan)
    lines = [line for line in run.printed if "again" in line]
    assert [line.partition(": used ")[0] for line in lines] == [
        f"launch {launch}/2: ortmodule: 2 blocks measured again" for launch in (1, 2)
    ]
    assert scan.seconds == []


def test_the_largest_share_of_each_process_is_said() -> None:
    attempts = [block(attempt=attempt, other_cpu_seconds=(0.5, 0.5)) for attempt in (1, 2, 3, 4)]
    competitors = [Competitor(name="cc1", pid=5, cores=cores) for cores in (0.2, 0.9, 0.4)]
    disturbed = record(blocks=tuple(attempts))
    assert describe_repeats({"a": disturbed, "b": disturbed}, [*competitors, MAKE, MAKE]) == [
        "6 blocks measured again, since other processes had the cores: cc1 (pid 5) 90 % of a core, make "
        "(pid 7) 25 % of a core",
        "2 blocks that other processes disturbed not measured again, since measure.repeats allows no more",
    ]
    assert describe_repeats({"a": record(blocks=(block(), block(round=2)))}, []) == []
    assert describe_repeats({"a": record(blocks=tuple(attempts[:1]))}, []) == [
        "1 block that other processes disturbed not measured again, since measure.repeats allows no more"
    ]
