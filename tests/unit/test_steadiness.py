"""Each warning where it belongs, and none where nothing is wrong."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from bench.analysis.steadiness.warnings import SteadinessWarning, find_warnings
from bench.machine.telemetry.gpu_meter import GpuSample
from bench.results.records import Record
from tests.support.factories import MIB, block, comparison, record, sample
from tests.support.result_files import table_of_records


def found(records: list[Record]) -> list[SteadinessWarning]:
    return find_warnings(table_of_records(records))


def kinds(records: list[Record]) -> list[str]:
    return [warning.kind for warning in found(records)]


def launches(*rounds: list[float]) -> list[Record]:
    return comparison({"pytorch": list(rounds)})


def steady(count: int = 3) -> list[list[float]]:
    return [[2.0, 2.01, 1.99, 2.0, 2.01, 1.99] for _ in range(count)]


def test_a_steady_comparison_has_no_warnings() -> None:
    assert kinds(launches(*steady())) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"overrides": ("measure.parity_tolerance=0.05",)}, "by 0.05 and pass, 0.0001 is the default"),
        ({"overrides": ("measure=quick", "measure.parity_tolerance=1e-3")}, "by 0.001 and pass"),
        ({"loss_difference": 0.03}, "by 0.03 and pass"),  # a user's preset
        ({"margin": 0.15}, "speed-ups up to 15% are called `same`"),
    ],
)
def test_a_gate_that_is_open_wide_is_said(changes: dict[str, Any], words: str) -> None:
    (warning,) = found([dataclasses.replace(each, **changes) for each in launches(*steady())])
    assert warning.kind == "wide gate"
    assert words in str(warning)


@pytest.mark.parametrize(
    "changes",
    [
        {"overrides": ("measure.parity_tolerance=1e-5",), "margin": 0.03},
        {"overrides": ("measure.parity_tolerance=${x}",)},
        {"loss_difference": 0.03, "optimizer": "adafactor"},  # makes another update
    ],
)
def test_a_gate_that_is_open_no_wider_than_by_default_is_not_said(changes: dict[str, Any]) -> None:
    assert kinds([dataclasses.replace(each, **changes) for each in launches(*steady())]) == []


@pytest.mark.slow
def test_ordinary_noise_seldom_warns() -> None:
    random = np.random.default_rng(0)
    noisy = [launches(*np.exp(random.normal(np.log(2), 0.02, (4, 6))).tolist()) for _ in range(100)]
    assert sum(bool(kinds(records)) for records in noisy) <= 5


def test_a_launch_that_slows_down_drifts() -> None:
    (warning,) = found(launches(*[[2.0, 2.0, 2.04, 2.08, 2.12, 2.16]] * 3))
    assert str(warning) == (
        "pytorch: becomes 7.7 % slower from the second round of a launch to its last; let the machine cool "
        "down or warm up, and measure more launches of fewer rounds"
    )


def test_drifts_in_opposite_directions_are_noise() -> None:
    up, down = [2.0, 2.0, 2.04, 2.08, 2.12, 2.16], [2.16, 2.16, 2.12, 2.08, 2.04, 2.0]
    assert "drift" not in kinds(launches(up, down, up, down))


def test_launches_that_differ_are_named() -> None:
    assert kinds(launches([2.0] * 3, [2.1] * 3, [2.3] * 3, [2.2] * 3)) == ["launches differ"]


def test_a_warm_up_that_ended_at_its_cap_is_named() -> None:
    records = [dataclasses.replace(one, warm_up_settled=one.launch != 2) for one in launches(*steady())]
    (warning,) = found(records)
    assert warning.kind == "unsettled"
    assert "1 of 3 launches" in warning.reason


def test_contaminated_blocks_are_counted() -> None:
    spoilt = block(7, 2.0, other_cpu_seconds=(1.0, 0.5))
    records = [dataclasses.replace(one, blocks=(*one.blocks, spoilt)) for one in launches(*steady(1))]
    (warning,) = found(records)
    assert warning.kind == "contaminated"
    assert warning.reason.startswith("1 invalid block, the last: other processes had 1.500 CPU seconds")
    assert warning.remedy == "end them"


@pytest.mark.parametrize(
    ("field", "who"), [("other_cpu_seconds", "other processes"), ("stolen_seconds", "the hypervisor")]
)
def test_load_below_contamination_is_named_too(field: str, who: str) -> None:
    blocks = tuple(block(number, 2.0, **{field: (0.06, 0.06)}) for number in range(1, 4))
    (warning,) = found([record(blocks=blocks)])
    assert warning.reason == f"{who} had 3.0 % of the ranks' cores"


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ([{"cpu_throttles": (0, n % 2)} for n in (1, 2, 3)], "throttled", "in 2 of 3 blocks"),
        ([{"cpu_clock_mhz": (3100.0, mhz)} for mhz in (3000, 3000, 2800)], "clock", "in 1 of 3 blocks"),
    ],
)
def test_a_processor_that_slows_down_is_named(changes: list[dict[str, Any]], kind: str, words: str) -> None:
    blocks = tuple(block(number, 2.0, **each) for number, each in enumerate(changes, start=1))
    (warning,) = found([record(blocks=blocks)])
    assert (warning.kind, words in warning.reason) == (kind, True)


def on_gpu(*samples: GpuSample, before: GpuSample) -> list[Record]:
    others = {"device_others_bytes": (before.used_bytes,), "device_foreign_bytes": (before.used_bytes,)}
    blocks = tuple(
        block(place, 2.0, samples=((one,),), device_used_bytes=(one.used_bytes,), **others)
        for place, one in enumerate(samples, start=1)
    )
    return [record(blocks=blocks, engine="compile", device="h100", device_before=(before,))]


IDLE = sample(used_bytes=300 * MIB, utilisation_percent=0.0)


def test_a_gpu_that_is_ours_alone_and_keeps_its_clock_has_no_warnings() -> None:
    assert kinds(on_gpu(sample(), sample(), sample(), before=IDLE)) == []


HOT = sample(throttled_by=("power cap", "temperature (hardware)"))
JOINED = sample(used_bytes=4600 * MIB)


@pytest.mark.parametrize(
    ("samples", "before", "kind", "words"),
    [
        ((sample(), HOT, sample()), {}, "throttled", "1 of 3 blocks (power cap, temperature (hardware))"),
        ((sample(), sample(), sample(sm_clock_mhz=1500.0)), {}, "clock", ""),
        ((sample(), JOINED, JOINED), {}, "busy GPU", ""),  # somebody joins within a launch
        ((sample(),) * 3, {"used_bytes": 900 * MIB}, "busy GPU", ""),
        ((sample(),) * 3, {"utilisation_percent": 40.0}, "busy GPU", ""),
    ],
)
def test_a_gpu_that_is_slower_than_it_could_be_or_shared_is_named(
    samples: tuple[GpuSample, ...], before: dict[str, Any], kind: str, words: str
) -> None:
    (warning,) = found(on_gpu(*samples, before=dataclasses.replace(IDLE, **before)))
    assert warning.kind == kind
    assert words in warning.reason


def test_a_gpu_that_waits_for_the_cpu_is_named() -> None:
    waiting = sample(utilisation_percent=43.0)
    (warning,) = found(on_gpu(waiting, waiting, waiting, sample(), before=IDLE))
    assert (warning.kind, "busy for 43 %" in warning.reason) == ("CPU-bound", True)
    assert kinds(on_gpu(waiting, waiting, before=IDLE)) == [], "two readings may be chance"
    (waits_for_batches,) = on_gpu(waiting, waiting, waiting, before=IDLE)
    blocks = tuple(dataclasses.replace(each, loader_seconds=(0.4,)) for each in waits_for_batches.blocks)
    assert kinds([dataclasses.replace(waits_for_batches, blocks=blocks)]) == ["loader"]


def test_a_gpu_s_comparison_without_compiled_pytorch_says_so() -> None:
    (eager,) = on_gpu(sample(), sample(), sample(), before=IDLE)
    (warning,) = found([dataclasses.replace(eager, engine="eager")])
    assert (warning.kind, warning.backend) == ("not compiled", "")
    assert "no compiled PyTorch was timed" in warning.reason


def test_a_device_that_tells_nothing_warns_of_nothing() -> None:
    dumb = GpuSample(
        used_bytes=None,
        utilisation_percent=None,
        sm_clock_mhz=None,
        temperature_c=None,
        power_watts=None,
        throttled_by=None,
    )
    assert kinds(on_gpu(dumb, dumb, dumb, before=dumb)) == []


@pytest.mark.parametrize(("seconds", "expected"), [(None, []), (0.09, []), (0.4, ["loader"])])
def test_a_loader_that_ranks_wait_for_is_named_with_the_setting_that_helps(
    seconds: float | None, expected: list[str]
) -> None:
    blocks = tuple(block(n, 2.0, loader_seconds=(seconds, seconds)) for n in (1, 2, 3))
    records = [record(blocks=blocks)]
    assert kinds(records) == expected
    if expected:
        (warning,) = found(records)
        assert "waited 20.0 % of the time for batches" in warning.reason
        assert "raise data.workers" in warning.remedy
