"""What the doctor says of machines that are well and of those that are not."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.doctor import examine as doctor
from bench.doctor.examine import Diagnosis, examine, look_at_backends, look_at_stack
from bench.errors import UserError
from bench.setup import stacks
from bench.setup.choice import Choice
from bench.setup.nvidia_smi import ListedGpu

TORCH = {"python": "3.11.7", "torch": "2.6.0+cu124", "cuda_build": "12.4", "cuda": True}
TORCH |= {"cudnn": 90100, "nccl": "2.21.5"}

GPU = ListedGpu("NVIDIA H200", "580.95.05", total_mib=140 * 1024, free_mib=139 * 1024)


def answering(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the doctor see something else; at first a machine on which all is well."""

    def see(**answers: Any) -> None:
        for name, value in answers.items():
            owner, _, attribute = name.rpartition("__")
            monkeypatch.setattr(getattr(doctor, owner) if owner else doctor, attribute, answering(value))

    environment = stacks.Installed("python", Path("env"), "3.11.7", {"torch": "2.6.0"})
    see(core_time=SimpleNamespace(busy=0.0), hardware__available_cores=16, find_lacking=[])
    see(shutil__disk_usage=SimpleNamespace(free=60 * 2**30), list_gpus=[GPU], time__sleep=None)
    see(stacks__installed=environment, stacks__find_other_versions=[], pending=[])
    see(recorded_choice=Choice("python", "3.11.7", "cuda"), ask_torch=(TORCH, ""), check_platform=None)
    see(look_at_backends=[])
    return see


@pytest.mark.usefixtures("seen")
def test_a_healthy_machine_has_only_findings_that_are_ok() -> None:
    found = examine("ort")
    assert {one.state for one in found} == {"ok"}
    assert {one.remedy for one in found} == {""}
    details = {one.part: one.detail for one in found}
    assert details["GPU 0"] == "NVIDIA H200, 139 of 140 GiB free"
    assert details["stack ort: CUDA"] == "CUDA 12.4, cuDNN 90100, NCCL 2.21.5"


FAULTS = [
    ({"hardware__available_cores": 1}, "cores", "poor", "one rank only", "taskset"),
    ({"core_time": None}, "other work", "ok", "not known", ""),
    ({"shutil__disk_usage": SimpleNamespace(free=3 * 2**30)}, "disk", "poor", "3 GiB", "needs 14 GiB"),
    ({"find_lacking": ["git", "g++"]}, "programs", "broken", "missing: git, g++", "apt install git make g++"),
    ({"find_lacking": ["git"]}, "programs", "poor", "missing: git", "dnf install git"),
    ({"list_gpus": []}, "GPUs", "ok", "none visible: comparisons run on the CPU", ""),
    (
        {"list_gpus": [replace(GPU, driver="470.57.02")]},
        *("stack ort", "broken", "470.57.02, and the ort stack's CUDA 12.4 needs 525.60.13"),
        "install a newer driver",
    ),
    (
        {"list_gpus": [replace(GPU, driver="550.54.15")]},
        *("stack modern", "poor", "550.54.15, and the modern stack's CUDA 13.0 needs 580.65.06"),
        "install a newer driver",
    ),
    (
        {"recorded_choice": None, "stacks__installed": None},
        *("stack ort", "poor", "not set up yet", "run `make setup`"),
    ),
    (
        {"pending": [SimpleNamespace(name="ortmodule"), SimpleNamespace(name="deepspeed")]},
        *("stack ort", "broken", "not set up: ortmodule, deepspeed", "run `make setup`"),
    ),
    (
        {"ask_torch": (None, "ImportError: libfoo.so.7")},
        *("stack modern", "poor", "torch: ImportError: libfoo.so.7", "make clean"),
    ),
    (
        {"stacks__find_other_versions": ["torch 2.5.0 instead of 2.6.0"]},
        *("stack ort: versions", "poor", "torch 2.5.0 instead of 2.6.0", "make clean"),
    ),
    (
        {"recorded_choice": Choice("python", "3.11.7", "cpu")},
        *("stack ort: CUDA", "poor", "those for a CPU", "make setup SETUP_ARGS='--device cuda'"),
    ),
    (
        {"ask_torch": ({**TORCH, "cuda": False, "cuda_build": None}, "")},
        *("stack ort: CUDA", "broken", "a build for CPUs", "built for CUDA"),
    ),
    (
        {"ask_torch": ({**TORCH, "cuda": False}, "")},
        *("stack ort: CUDA", "broken", "CUDA 12.4 finds no GPU", "driver for CUDA 12.4"),
    ),
]


@pytest.mark.parametrize(("answers", "part", "state", "detail", "remedy"), FAULTS)
def test_every_problem_is_named_with_its_remedy(
    seen: Callable[..., None], answers: dict[str, Any], part: str, state: str, detail: str, remedy: str
) -> None:
    seen(**answers)
    [one] = [one for one in examine("ort") if one.part == part]
    assert one.state == state
    assert detail in one.detail
    assert remedy in one.remedy


def test_a_driver_that_does_not_answer_and_a_machine_of_another_kind_are_said_in_the_errors_words(
    seen: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise UserError("it fails", "repair it")

    monkeypatch.setattr(doctor, "list_gpus", fail)
    assert Diagnosis("NVIDIA driver", "it fails", "broken", "repair it.") in examine("ort")
    seen(recorded_choice=None, stacks__installed=None)
    monkeypatch.setattr(doctor, "check_platform", fail)
    assert look_at_stack("ort", []) == [Diagnosis("stack ort", "it fails", "broken", "repair it.")]


def test_other_work_is_a_drawback(seen: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([SimpleNamespace(busy=0.0), SimpleNamespace(busy=math.inf)])
    monkeypatch.setattr(doctor, "core_time", lambda _: next(times))
    assert doctor.look_for_other_work().state == "poor"


def test_the_packages_for_a_cpu_need_no_driver(seen: Callable[..., None]) -> None:
    seen(recorded_choice=Choice("python", "3.11.7", "cpu"))
    details = [one.detail for one in look_at_stack("ort", [replace(GPU, driver="470.57.02")])]
    assert details[1:] == ["the packages are those for a CPU"]


def test_a_backend_s_file_with_a_mistake_is_refused_and_so_is_one_of_a_broken_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = "engine: eager\noptimizer: adamw\nsharding: ddp\n"
    (tmp_path / "backend").mkdir()
    for name, content in {
        "good": eager,
        "key": f"{eager}layers: 3",
        "value": "engine: eager\n",
        "yaml": "engine: eager\n- : x",
        "choice": eager.replace("eager", "jax"),
        "mixed": f"{eager}precision: tf32",  # refused by the comparison as a whole
    }.items():
        (tmp_path / "backend" / f"{name}.yaml").write_text(content)
    monkeypatch.setattr(doctor, "CONF", tmp_path)
    runs, *refused = look_at_backends([], driver=False)
    assert (runs.detail, runs.state) == ("would run: good", "ok")
    assert {one.state for one in refused} == {"poor"}, "none is a backend of `make bench`"
    own = stacks.own()
    broken = [one.detail for one in look_at_backends([own], driver=False)]
    assert f"good: the {own} stack is broken" in broken
