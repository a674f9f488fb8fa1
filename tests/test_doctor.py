"""The doctor's judgement of machines that are not at hand, and of this one by the real command."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import doctor, stacks
from bench.doctor import Card, Finding, Seen, StackSeen, findings

ROOT = Path(__file__).resolve().parents[1]
TORCH = {"python": "3.11.7", "torch": "2.6.0+cu118", "cuda_build": "11.8", "cuda": True}
TORCH |= {"cudnn": 90100, "nccl": "2.21.5", "capability": [9, 0], "kernels": ["sm_80", "sm_90"]}
CARD = Card(name="NVIDIA H200", driver="560.1", free_gib=139, total_gib=140, processes=0)
WELL = Seen(
    cores=16,
    busy_cores=0.01,
    memory_free_gib=100,
    disk_free_gib=60,
    tools={"g++": True, "git": True},
    cards=[CARD],
    libraries=dict.fromkeys(doctor.ORT_LIBRARIES, True),
    stacks=[StackSeen(name="ort", torch=TORCH), StackSeen(name="modern", torch=TORCH)],
    backends={"pytorch": "", "ortmodule": ""},
    default_backends=["pytorch", "ortmodule"],
)


def test_of_a_machine_that_is_well_nothing_is_said_but_what_there_is() -> None:
    found = findings(WELL)
    assert {one.state for one in found} == {"ok"}
    assert {one.remedy for one in found} == {""}
    details = {one.what: one.detail for one in found}
    assert details["GPU 0"] == "NVIDIA H200, 139 of 140 GiB free"
    assert details["stack ort: CUDA"] == "CUDA 11.8, cuDNN 90100, NCCL 2.21.5, sm_90"


BROKEN = [
    ({"cores": 1}, "cores", "poor", "one rank only", "taskset"),
    ({"busy_cores": 1.5}, "other work", "poor", "takes 1.5 cores", "end it"),
    ({"memory_free_gib": 0.5}, "memory", "poor", "0.5 GiB", "measure.resident=one"),
    ({"disk_free_gib": 3}, "disk", "poor", "3 GiB free", "make room"),
    ({"tools": {"g++": False}}, "g++", "broken", "not on PATH", "apt install g++"),
    (
        {"driver_trouble": "The NVIDIA driver does not answer (NVML: x); mend it, or choose device=cpu."},
        *("NVIDIA driver", "broken", "does not answer", "mend it, or choose device=cpu"),
    ),
    ({"cards": [replace(CARD, processes=2)]}, "GPU 0", "poor", "2 processes", "CUDA_VISIBLE_DEVICES"),
    (
        {"libraries": {"libcublas.so.11": True, "libcudnn.so.8": False}},
        *("libcudnn.so.8", "broken", "GPU package needs it", "install cuDNN 8"),
    ),
    (
        {"stacks": [StackSeen(name="ort", pending=["ortmodule", "deepspeed"])]},
        *("stack ort", "broken", "ortmodule, deepspeed to be done", "run `make setup`"),
    ),
    (
        {"stacks": [StackSeen(name="modern", pending=["everything"])]},
        *("stack modern", "poor", "not set up", "run `make setup STACK=modern`"),
    ),
    (
        {"stacks": [StackSeen(name="ort", trouble="ImportError: libfoo.so.7")]},
        *("stack ort", "broken", "ImportError: libfoo.so.7", "make clean"),
    ),
    (
        {"stacks": [StackSeen(name="ort", torch=TORCH, wrong=["torch 2.5.0 instead of 2.6.0"])]},
        *("stack ort: versions", "poor", "torch 2.5.0 instead of 2.6.0", "make clean"),
    ),
    (
        {"stacks": [StackSeen(name="ort", torch=TORCH, plain_onnxruntime="onnxruntime-gpu")]},
        *("stack ort: onnxruntime-gpu", "broken", "overwrites", "make clean"),
    ),
    (
        {"stacks": [StackSeen(name="ort", torch={**TORCH, "cuda": False, "cuda_build": None})]},
        *("stack ort: CUDA", "broken", "a build for CPUs", "built for CUDA"),
    ),
    (
        {"stacks": [StackSeen(name="ort", torch={**TORCH, "cuda": False})]},
        *("stack ort: CUDA", "broken", "CUDA 11.8 finds no GPU", "driver for CUDA 11.8"),
    ),
    (
        {"stacks": [StackSeen(name="ort", torch={**TORCH, "capability": [12, 0]})]},
        *("stack ort: CUDA", "broken", "sm_120, for which it has no kernels", "built for this GPU"),
    ),
    (
        {"backends": {"pytorch": "", "ortmodule": "torch is not installed; run `make setup`."}},
        *("backend ortmodule", "broken", "torch is not installed", "run `make setup`."),
    ),
    (
        {"backends": {"pytorch@modern": "needs the modern stack; run `make setup STACK=modern`."}},
        *("backend pytorch@modern", "poor", "needs the modern stack", "run `make setup STACK=modern`."),
    ),
]


@pytest.mark.parametrize(("change", "what", "state", "detail", "remedy"), BROKEN)
def test_what_is_not_well_is_named_with_its_remedy(
    change: dict[str, object], what: str, state: str, detail: str, remedy: str
) -> None:
    [one] = [one for one in findings(replace(WELL, **change)) if one.state != "ok"]  # type: ignore[arg-type]
    assert (one.what, one.state) == (what, state)
    assert detail in one.detail
    assert remedy in one.remedy


def test_without_gpus_that_is_all_that_is_said_of_them() -> None:
    found = {one.what: one for one in findings(replace(WELL, cards=[]))}
    assert found["GPUs"] == Finding(
        what="GPUs", state="ok", detail="none visible: comparisons run on the CPU"
    )
    assert "stack ort: CUDA" not in found


def doctor_here(path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.doctor"],
        cwd=ROOT,
        env={"PATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_machine_would_run_the_default_comparison(tmp_path: Path) -> None:
    """And with an empty PATH it is said that the compiler is missing."""
    well = doctor_here("/usr/local/bin:/usr/bin:/bin")
    assert well.returncode == 0, well.stdout + well.stderr
    assert "backend pytorch" in well.stdout
    assert f"stack {stacks.own()}" in well.stdout
    broken = doctor_here(str(tmp_path))
    assert broken.returncode == 1
    assert "apt install g++" in broken.stdout


def test_a_torch_that_cannot_be_imported_is_told_by_its_last_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Traceback' >&2\necho 'OSError: libcudart.so.11.0' >&2\nexit 1\n")
    python.chmod(0o755)
    assert doctor._ask_torch(str(python)) == (None, "OSError: libcudart.so.11.0")
    python.write_text(f"#!/bin/sh\necho noise\necho '{json.dumps(TORCH)}'\n")
    assert doctor._ask_torch(str(python)) == (TORCH, "")
