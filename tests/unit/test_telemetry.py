"""A GPU's figures through NVML, and what is said where there are none."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.machine.gpus import visible_gpus
from bench.machine.telemetry import gpu_meter
from bench.machine.telemetry.gpu_meter import NVML_SECONDS, GpuMeter
from bench.machine.telemetry.gpu_sampler import LARGEST_SHARE, PERIOD_SECONDS, GpuSampler
from tests.support.fake_nvml import A, B, C, FakeNvml

MIB = 1 << 20
UNLISTED = "NVML does not list this process by its number here"


def test_a_device_tells_what_it_uses_and_how_it_is_doing(nvml: FakeNvml) -> None:
    nvml.reasons = 0x04 | 0x40 | 0x01  # idleness is no throttling
    sample = GpuMeter(A).sample()
    assert sample.used_bytes == 300 * MIB
    assert sample.utilisation_percent == 97
    assert sample.sm_clock_mhz == 1755
    assert sample.temperature_c == 61
    assert sample.power_watts == 512.5
    assert sample.throttled_by == ("power cap", "temperature (hardware)")


def test_energy_is_the_counter_in_joules(nvml: FakeNvml) -> None:
    device = GpuMeter(A)
    before = device.energy_joules()
    nvml.millijoules[A] += 1500
    after = device.energy_joules()
    assert before is not None
    assert after is not None
    assert after - before == pytest.approx(1.5)


@pytest.fixture
def _outside_of_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_meter, "_has_the_driver_s_process_ids", lambda: True)


@pytest.mark.usefixtures("_outside_of_containers")
def test_a_process_is_told_from_the_others(nvml: FakeNvml) -> None:
    nvml.processes[A] = [(1, 100 * MIB), (os.getpid(), 40 * MIB)]
    assert GpuMeter(A).process_bytes() == 40 * MIB


def test_a_container_s_process_is_not_taken_for_a_stranger_with_its_number(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "stat", lambda _: SimpleNamespace(st_ino=0xEFFFFFFD))
    nvml.processes[A] = [(os.getpid(), 100 * MIB)]
    device = GpuMeter(A)
    assert device.process_bytes() is None
    assert device.absent == {"device_process_bytes": UNLISTED}


@pytest.mark.usefixtures("_outside_of_containers")
def test_a_process_that_the_driver_does_not_list_is_blank_with_the_reason(nvml: FakeNvml) -> None:
    nvml.processes[A] = [(1, 100 * MIB)]
    device = GpuMeter(A)
    assert device.process_bytes() is None
    assert device.absent == {"device_process_bytes": UNLISTED}
    nvml.processes[A] = [(os.getpid(), None)]
    assert device.process_bytes() is None


def test_what_the_driver_keeps_for_itself_is_nobody_s_use(nvml: FakeNvml) -> None:
    assert GpuMeter(A).used_bytes() == 300 * MIB


def test_missing_permissions_blank_only_what_they_forbid(nvml: FakeNvml) -> None:
    nvml.forbidden = {"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetClockInfo"}
    device = GpuMeter(B)
    assert device.energy_joules() is None
    assert device.sample().sm_clock_mhz is None
    assert device.sample().utilisation_percent == 97
    assert device.absent == {
        "energy_joules": "NVML: Insufficient Permissions",
        "gpu_clock": "NVML: Insufficient Permissions",
    }


def test_reordered_devices_are_read_by_uuid(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    sampler = GpuSampler([GpuMeter(gpu.uuid) for gpu in visible_gpus()])
    assert [sample.used_bytes for sample in sampler.look()] == [7 * MIB, 300 * MIB]
    assert {uuid for name, uuid in nvml.asked if name == "nvmlDeviceGetClockInfo"} == {C, A}


@pytest.mark.parametrize(
    ("uuid", "absent"),
    [
        ("GPU-gone", {"nvml": "NVML: Not Found"}),
        (None, {"device": "there is no GPU: device memory and energy are blank"}),
    ],
)
def test_an_unknown_device_and_none_are_silent_and_say_why(
    nvml: FakeNvml, uuid: str | None, absent: dict[str, str]
) -> None:
    device = GpuMeter(uuid)
    assert (device.used_bytes(), device.energy_joules()) == (None, None)
    assert device.absent == absent


class Clocks:
    """Time, and the CPU time that a look costs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cpu = 0.0
        self.cost = 0.0

    def wall(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def thread(self) -> float:
        self.cpu += self.cost / 2  # asked before and after a look
        return self.cpu


def a_sampler(clocks: Clocks, *uuids: str) -> GpuSampler:
    return GpuSampler(
        [GpuMeter(uuid) for uuid in uuids], clock=clocks.wall, cpu_clock=clocks.thread, sleep=clocks.sleep
    )


def test_samples_are_taken_every_period_and_handed_over_once(nvml: FakeNvml) -> None:
    clocks = Clocks()
    sampler = a_sampler(clocks, A, B)
    for _ in range(9):
        sampler.sample()
        clocks.now += PERIOD_SECONDS / 2
    taken = sampler.take()
    assert [len(device) for device in taken] == [5, 5]
    assert [device[0].used_bytes for device in taken] == [300 * MIB, 5000 * MIB]
    assert sampler.take() == ()


def test_a_phase_starts_without_what_was_seen_before_it(nvml: FakeNvml) -> None:
    clocks = Clocks()
    sampler = a_sampler(clocks, A)
    sampler.sample()
    sampler.start()
    sampler.sample()
    clocks.now += 0.9 * NVML_SECONDS
    sampler.sample()
    assert sampler.take() == (), "NVML's utilisation would be of whoever was there before, too"
    clocks.now += 0.1 * NVML_SECONDS
    sampler.sample()
    assert [len(device) for device in sampler.take()] == [1]


def test_a_group_that_has_just_ended_is_not_taken_for_somebody_else(nvml: FakeNvml) -> None:
    clocks = Clocks()
    sampler = a_sampler(clocks, A)

    def calming(seconds: float) -> None:
        clocks.sleep(seconds)
        nvml.utilisation = 0

    sampler.sleep = calming
    (seen,) = sampler.look_before_a_group()
    assert (seen.utilisation_percent, clocks.now) == (0, 1.0)
    sampler.look_before_a_group()
    assert clocks.now == 1.0, "an idle device is looked at once"


def test_somebody_who_stays_is_seen_before_a_group(nvml: FakeNvml) -> None:
    clocks = Clocks()
    (seen,) = a_sampler(clocks, A).look_before_a_group()
    assert (seen.utilisation_percent, clocks.now) == (97, 3.0)


def test_the_reasons_of_every_device_are_connected_nodes(nvml: FakeNvml) -> None:
    nvml.forbidden = {"nvmlDeviceGetPowerUsage"}
    sampler = a_sampler(Clocks(), A, B)
    sampler.look()
    assert sampler.absent() == {"gpu_power": "NVML: Insufficient Permissions"}


def test_looking_never_takes_more_than_its_share_of_a_core(nvml: FakeNvml) -> None:
    clocks = Clocks()
    clocks.cost = 0.02  # eight GPUs behind a slow driver
    sampler = a_sampler(clocks, A)
    while clocks.now < 100:
        sampler.sample()
        clocks.now += 0.1
    assert 1 < len(sampler.take()[0]) <= 1 + 100 * LARGEST_SHARE / (clocks.cost / 2)


def test_without_devices_nothing_is_ever_due() -> None:
    sampler = GpuSampler([])
    assert sampler.seconds_until_due() == float("inf")
    sampler.sample()
    assert sampler.take() == ()
    assert sampler.look() == ()
