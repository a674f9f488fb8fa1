"""The kernel's account of core time, and a rank's share of it, against real work."""

import os
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from bench.machine.telemetry.cpu import clock_mhz, core_time, cpu_seconds, process_seconds, throttle_count
from bench.machine.telemetry.device import Device
from bench.machine.telemetry.rank import RankMeter

pytestmark = pytest.mark.alone  # others on its cores are what it looks for

STAT = """cpu  30 0 60 1000 5 0 6 9 0 0
cpu0 10 1 20 500 2 3 4 5 7 0
cpu1 20 0 40 500 3 0 2 4 0 0
intr 12345 0
"""


def stat(folder: Path, text: str) -> Path:
    path = folder / "stat"
    path.write_text(text)
    return path


def test_core_time_adds_up_the_chosen_cores_in_seconds(tmp_path: Path) -> None:
    tick = 1 / os.sysconf("SC_CLK_TCK")
    path = stat(tmp_path, STAT)
    one = core_time([0], path)
    both = core_time([0, 1], path)
    assert one is not None
    assert both is not None
    assert one.busy == pytest.approx(38 * tick)
    assert one.stolen == pytest.approx(5 * tick)
    assert both.busy == pytest.approx(100 * tick)
    assert both.stolen == pytest.approx(9 * tick)


@pytest.mark.parametrize("text", ["", "cpu0 1 2\n", "cpu0 a b c d e f g h\n", STAT.replace("cpu1", "cpu7")])
def test_what_the_kernel_does_not_tell_is_none(tmp_path: Path, text: str) -> None:
    assert core_time([0, 1], stat(tmp_path, text)) is None
    assert core_time([0], tmp_path / "missing") is None


def cpus(folder: Path, **files: str) -> Path:
    for core in (0, 1):
        for name, text in files.items():
            kind = "cpufreq" if name == "scaling_cur_freq" else "thermal_throttle"
            path = folder / f"cpu{core}" / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{int(text) + core}\n" if text.isdigit() else text)
    return folder


def test_clock_and_throttling_are_those_of_the_chosen_cores(tmp_path: Path) -> None:
    folder = cpus(tmp_path, scaling_cur_freq="2500000", core_throttle_count="3")
    assert clock_mhz([0, 1], folder) == 2500.001
    assert clock_mhz([0], folder) == 2500.0
    assert throttle_count([0, 1], folder) == 7
    assert throttle_count([0, 2], folder) is None, "one core is silent"
    assert clock_mhz([0], cpus(tmp_path, scaling_cur_freq="<unknown>")) is None
    assert clock_mhz([0], tmp_path / "none") is None


def spin(core: int, seconds: float) -> None:
    os.sched_setaffinity(0, {core})
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def spin_then_sleep(core: int, seconds: float) -> None:
    spin(core, seconds)
    time.sleep(60)


@pytest.fixture
def core() -> int:
    return max(os.sched_getaffinity(0))


def measured_beside(core: int, foreign_seconds: float) -> dict[str, float]:
    """A rank's figures for half a second of its own work, with somebody else on its core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        meter = RankMeter(Device(None))
        meter.prepare()
        meter.start()
        stranger = 0
        if foreign_seconds:
            stranger = os.fork()  # not by way of multiprocessing, whose processes are the rank's own helpers
            if stranger == 0:
                spin(core, foreign_seconds)
                os._exit(0)
        spin(core, 0.5)
        figures = meter.stop()
        if stranger:
            os.waitpid(stranger, 0)
        return figures
    finally:
        os.sched_setaffinity(0, before)


def test_somebody_else_on_the_rank_s_core_is_seen(core: int) -> None:
    figures = measured_beside(core, foreign_seconds=10 * 0.05)
    assert figures["other_cpu_seconds"] > 0.1
    assert figures["cpu_seconds"] < 0.45


def test_a_rank_s_own_work_is_not_somebody_else_s(core: int) -> None:
    # The quietest of several: this machine may have other things to do.
    assert min(measured_beside(core, 0)["other_cpu_seconds"] for _ in range(4)) < 0.06


def test_own_time_is_counted_once_work_is_done(core: int) -> None:
    assert measured_beside(core, 0)["cpu_seconds"] > 0.3


def test_a_helper_s_time_is_the_rank_s_own_while_it_lives_and_when_it_has_ended(core: int) -> None:
    before = cpu_seconds()
    helper = get_context("fork").Process(target=spin_then_sleep, args=(core, 0.3), daemon=True)
    helper.start()
    time.sleep(0.6)
    assert helper.pid
    living, its = cpu_seconds() - before, process_seconds(helper.pid)
    assert 0.1 < its < 0.35
    assert living == pytest.approx(its, abs=0.05)
    helper.kill()
    helper.join()
    assert cpu_seconds() - before == pytest.approx(living, abs=0.05)
    assert process_seconds(helper.pid) == 0


def test_what_a_helper_does_on_the_rank_s_core_is_not_somebody_else_s(core: int) -> None:
    def once() -> float:
        meter = RankMeter(Device(None))
        meter.cores = [core]
        meter.prepare()
        helper = get_context("fork").Process(target=spin_then_sleep, args=(core, 0.3), daemon=True)
        helper.start()
        meter.start()
        time.sleep(0.6)
        figures = meter.stop()
        helper.kill()
        helper.join()
        assert figures["cpu_seconds"] > 0.1
        return float(figures["other_cpu_seconds"])

    assert min(once() for _ in range(4)) < 0.06


def test_where_the_kernel_is_silent_the_figures_are_blank_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.machine.telemetry.rank.core_time", lambda cores: None)
    meter = RankMeter(Device(None))
    meter.prepare()
    meter.start()
    figures = meter.stop()
    assert figures["other_cpu_seconds"] is None
    assert figures["stolen_seconds"] is None
    assert {"other_cpu_seconds", "stolen_seconds", "device"} <= set(meter.absent)
    assert all(figures[name] is None for name in set(meter.absent) - {"device"})
