"""The kernel's account of core time, read from files like its own."""

import os
from pathlib import Path

import pytest

from bench.machine.telemetry.cpu import clock_mhz, core_time, throttle_count

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
