"""The kernel's account of core time, and a rank's share of it, against real work."""

import os
import time
from multiprocessing import get_context

import pytest

from bench.machine.telemetry.cpu import cpu_seconds, process_seconds
from bench.machine.telemetry.gpu_meter import GpuMeter
from bench.machine.telemetry.rank_meter import RankMeter

pytestmark = pytest.mark.once
quiet_cores = pytest.mark.time  # others on its cores are what it looks for


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
        meter = RankMeter(GpuMeter(None))
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


@quiet_cores
def test_somebody_else_on_the_rank_s_core_is_seen(core: int) -> None:
    figures = measured_beside(core, foreign_seconds=10 * 0.05)
    assert figures["other_cpu_seconds"] > 0.1
    assert figures["cpu_seconds"] < 0.45


@quiet_cores
def test_a_rank_s_own_work_is_counted_and_not_somebody_else_s(core: int) -> None:
    # The quietest of several: this machine may have other things to do.
    figures = [measured_beside(core, 0) for _ in range(4)]
    assert min(one["other_cpu_seconds"] for one in figures) < 0.06
    assert max(one["cpu_seconds"] for one in figures) > 0.3


@quiet_cores
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


@quiet_cores
def test_what_a_helper_does_on_the_rank_s_core_is_not_somebody_else_s(core: int) -> None:
    def once() -> float:
        meter = RankMeter(GpuMeter(None))
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
    monkeypatch.setattr("bench.machine.telemetry.rank_meter.core_time", lambda cores: None)
    meter = RankMeter(GpuMeter(None))
    meter.prepare()
    meter.start()
    figures = meter.stop()
    assert figures["other_cpu_seconds"] is None
    assert figures["stolen_seconds"] is None
    assert {"other_cpu_seconds", "stolen_seconds", "device"} <= set(meter.absent)
    assert all(figures[name] is None for name in set(meter.absent) - {"device"})
