"""On a GPU backends take turns if they fit side by side, and the micro-batch that fills it is found."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.config.device import Device
from bench.report.content.collection import read_comparison
from tests.support import configs
from tests.support.comparisons import Simulated
from tests.support.configs import BACKENDS
from tests.support.factories import MIB, sample
from tests.support.fake_nvml import FakeNvml

A, B = "GPU-aa11-0001", "GPU-bb22-0002"
CARDS = {A: "NVIDIA H200", B: "NVIDIA H200"}  # of 1 and 2 GiB
BEFORE = 100 * MIB  # that somebody else has of each


@pytest.fixture(autouse=True)
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two GPUs, on which every configuration of these tests runs."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(configs, "Device", lambda **figures: Device(**figures | {"type": "cuda"}))
    fake = FakeNvml(cards=CARDS)
    fake.used, fake.utilisation = dict.fromkeys(CARDS, BEFORE), 0
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def on_gpus(
    folder: Path, nvml: FakeNvml, mib: int, changes: dict[str, Any] | None = None, **measure: Any
) -> Simulated:
    """A comparison whose backends take so many MiB of each GPU."""
    scripts = {name: {"takes": (nvml, mib * MIB)} | (changes or {}).get(name, {}) for name in BACKENDS}
    return Simulated(folder, scripts, **{"block_warmup_s": 0.2, "min_steps": 10} | measure)


def test_backends_take_turns_and_each_has_its_own_memory(tmp_path: Path, nvml: FakeNvml) -> None:
    run = on_gpus(tmp_path, nvml, 200)  # 1.5 times 3 of these are less than 924
    assert run.failures == []
    for number in (1, 2):
        places = [(row["backend"], row["position"]) for row in run.rows if row["launch"] == str(number)]
        assert len(set(places)) == 9, "in every round each has another place"
    assert {row["device_peak_mib"] for row in run.rows} == {"200"}
    assert {row["device_baseline_mib"] for row in run.rows} == {"100"}
    assert {row["steps"] for row in run.rows} == {"10"}, "although 2 s have 3 steps of the reference"
    assert {group.untimed for group in run.groups if group.launch} == {2}, "0.2 s have less than one"
    assert not [line for line in run.printed if "one after the other" in line]
    assert nvml.used[A] == BEFORE


def test_where_memory_does_not_suffice_they_run_one_after_the_other(tmp_path: Path, nvml: FakeNvml) -> None:
    run = on_gpus(tmp_path, nvml, 220)
    assert run.failures == []
    (line,) = [line for line in run.printed if "one after the other" in line]
    assert line == (
        "backends run one after the other, since together they may take 1.0 GiB of a GPU, and 0.9 are free; "
        "launches differ more then: measure.launches=4 makes up for it"
    )
    for number in (1, 2):
        of_launch = [row for row in run.rows if row["launch"] == str(number)]
        assert len({(row["backend"], row["position"]) for row in of_launch}) == 3
    assert {row["device_peak_mib"] for row in run.rows} == {"220"}


def test_a_gpu_that_does_not_tell_its_memory_is_used_by_one_at_a_time(tmp_path: Path, nvml: FakeNvml) -> None:
    nvml.forbidden = {"nvmlDeviceGetMemoryInfo_v2"}
    run = on_gpus(tmp_path, nvml, 1)
    assert any("since together NVML does not say how much memory they take" in line for line in run.printed)
    assert {row["device_peak_mib"] for row in run.rows} == {""}


@pytest.mark.parametrize(("times", "crowded"), [(3, "ortmodule_zero1"), (6, "ortmodule")])
def test_who_runs_out_of_memory_beside_the_others_is_measured_alone(
    tmp_path: Path, nvml: FakeNvml, times: int, crowded: str
) -> None:
    run = on_gpus(tmp_path, nvml, 200, {"ortmodule": {"with_dropout": times}})
    words = "it is measured alone, and from the next launch on backends run one after the other"
    assert [line for line in run.printed if words in line] == [
        f"{crowded}, launch 1/2: CUDA out of memory: {words}"
    ]
    alone = "ortmodule, launch {}/2: oom: CUDA out of memory"
    assert run.failures == ([] if times == 3 else [alone.format(1), alone.format(2)])
    assert {len(run.of(name)) for name in ("pytorch", "ortmodule_zero1")} == {6}
    others = [row for row in run.of("pytorch") if row["launch"] == "1"]
    assert len({row["position"] for row in others}) > 1, "they still took turns"


WAITS = {"device_ends": (sample(utilisation_percent=50.0),) * 2, "filled_at": 12}
"""A GPU that is half busy, and takes longer for a step from 12 samples of a rank on; it has 4."""


@pytest.mark.parametrize(
    ("script", "batch", "mib", "tried", "saturating"),
    [
        pytest.param(WAITS, "equal", 10, [4, 8, 16, 32], 16, id="a step of 32 takes twice one of 16"),
        pytest.param(WAITS | {"fits": 8}, "equal", 10, [4, 8], 8, id="out of memory"),
        pytest.param(WAITS, "equal", 400, [4], 4, id="no memory for more"),
        pytest.param({"device_ends": (sample(),) * 2}, "equal", 10, [4], 4, id="busy"),
        pytest.param({}, "equal", 10, [4], 4, id="NVML does not say"),
        pytest.param(WAITS, "saturating", 10, [4, 8, 16, 32], 16, id="taken"),
    ],
)
def test_what_fills_the_gpu_is_found_by_doubling_where_it_waits(
    tmp_path: Path, nvml: FakeNvml, script: Any, batch: str, mib: int, tried: list[int], saturating: int
) -> None:
    run = on_gpus(tmp_path, nvml, mib, {"pytorch": script}, batch=batch)
    assert run.failures == []
    sizes = re.findall(r"at (\d+)", "".join(line for line in run.printed if "to fill the GPU" in line))
    searched = len(tried) > 1
    assert list(map(int, sizes)) == tried * searched, "of pytorch alone: the others are not eager"
    assert {row["saturating_micro_batch"] for row in run.rows} == {str(saturating) if searched else ""}
    assert {row["micro_batch"] for row in run.rows} == {str(saturating if batch == "saturating" else 4)}
    assert all(group.spec.micro_batch == 4 for group in run.groups if not group.launch), "parity is as asked"
    page = read_comparison(run.comparison.shared.output.csv)
    waiting = [warning.remedy for warning in page.warnings if warning.kind == "CPU-bound"]
    if saturating > 4 and batch == "equal":
        assert waiting == [
            f"set micro_batch={saturating}, which fills it (micro_batch=saturating), or compare compile_best"
        ]
