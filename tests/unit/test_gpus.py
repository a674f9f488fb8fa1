import inspect
import sys
from dataclasses import replace

import pytest

from bench.errors import UserError
from bench.machine.gpus import Gpu, describe_first_use, select_visible, short_name, visible_gpus
from tests.support.fake_nvml import A, B, C, FakeNvml, functions


def test_every_gpu_is_described_in_nvmls_order(nvml: FakeNvml) -> None:
    first = Gpu(
        index=0,
        uuid=A,
        name="NVIDIA H200",
        memory_total_bytes=2**30,
        driver="550.54.15",
        capability=(9, 0),
        near_cores=(2, 3),
    )
    second = replace(first, index=1, uuid=B, memory_total_bytes=2**31)
    third = replace(first, index=2, uuid=C, name="Tesla T4", memory_total_bytes=3 * 2**30, capability=(7, 5))
    assert visible_gpus() == [first, second, third]
    assert nvml.open == 0, "NVML is shut down again"


def test_the_index_counts_what_is_visible(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert [(gpu.index, gpu.uuid) for gpu in visible_gpus()] == [(0, C), (1, A)]


@pytest.mark.parametrize(
    ("setting", "places"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2,0", [2, 0]),
        (" 2 , 1 ", [2, 1]),
        ("-1", []),
        ("0,-1,1", [0]),
        ("0,3,1", [0]),
        ("0,,1", [0]),
        ("0,x,1", [0]),
        ("0,1,0", []),
        ("NoDevFiles", []),
        (B, [1]),
        (f"{C},{A}", [2, 0]),
        ("GPU-bb,GPU-aa1", [2, 0]),
        ("GPU-aa", []),
        (f"{A},GPU-zz,{B}", [0]),
        (f"{A},{A}", []),
        (f"1,{A}", [1]),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(setting: str | None, places: list[int]) -> None:
    assert select_visible([A, B, C], setting) == places


@pytest.mark.parametrize("missing", ["NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded"])
def test_without_a_driver_there_are_no_gpus(nvml: FakeNvml, missing: str) -> None:
    nvml.at_init = getattr(FakeNvml, missing)("no")
    assert visible_gpus() == []


def test_without_the_package_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert visible_gpus() == []


def test_a_broken_driver_is_one_sentence(nvml: FakeNvml) -> None:
    nvml.at_init = FakeNvml.NVMLError_LibRmVersionMismatch("no")
    with pytest.raises(UserError) as refusal:
        visible_gpus()
    assert str(refusal.value) == (
        "The NVIDIA driver does not answer (NVML: no); repair it, or choose device=cpu."
    )


def test_a_gpu_that_a_cgroup_hides_does_not_count(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.hidden = {A}
    assert [(gpu.index, gpu.uuid) for gpu in visible_gpus()] == [(0, B), (1, C)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu.uuid for gpu in visible_gpus()] == [C]


def test_a_lost_gpu_is_one_sentence_unless_it_is_left_out(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.lost = {B}
    for setting in (None, "0,1", "2,1"):
        if setting:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        with pytest.raises(UserError) as refusal:
            visible_gpus()
        assert str(refusal.value) == (
            "A GPU does not answer (NVML: GPU is lost); repair it (nvidia-smi names it), leave it out of "
            "CUDA_VISIBLE_DEVICES, or choose device=cpu."
        )
    for setting in ("0,2", f"{A},{C}"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
        assert [(gpu.index, gpu.uuid) for gpu in visible_gpus()] == [(0, A), (1, C)]
    assert nvml.open == 0, "NVML is shut down again"


@pytest.mark.parametrize(("name", "fake"), functions().items())
def test_the_fake_has_the_real_packages_interface(name: str, fake: object) -> None:
    real = getattr(pytest.importorskip("pynvml"), name)
    if inspect.isfunction(fake):
        taken = list(inspect.signature(fake).parameters)[1:]
        offered = inspect.signature(inspect.unwrap(real)).parameters
        assert list(offered)[: len(taken)] == taken
        assert all(one.default is not one.empty for one in list(offered.values())[len(taken) :])
    elif isinstance(fake, type):
        assert issubclass(real, Exception)
    else:
        assert real == fake


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
        ("NVIDIA H200 MIG 1g.18gb", "h200-mig-1g.18gb"),
        ("NVIDIA RTX 6000/8000 (Ada)", "rtx-6000-8000-ada"),
        ("../..", "gpu"),
    ],
)
def test_short_names_are_short_and_safe(name: str, short: str) -> None:
    assert short_name(name) == short


def test_a_gpu_newer_than_onnx_runtime_s_code_needs_minutes_and_others_need_no_words(nvml: FakeNvml) -> None:
    newest, _, turing = visible_gpus()
    assert "compute capability 9.0: the driver compiles its kernels" in describe_first_use([newest, turing])
    assert describe_first_use([turing, replace(turing, capability=(8, 9))]) == describe_first_use([]) == ""
