"""The doctor's judgement of machines that are not at hand, and of this one by the real command."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.config.compose import compose
from bench.doctor.judge import Finding, judge
from bench.doctor.probe import ask_torch
from bench.doctor.seen import ORT_LIBRARIES, GpuSeen, MachineSeen, Refusal, StackSeen
from bench.setup import recipes, stacks
from bench.setup.choice import choice_file

ROOT = Path(__file__).resolve().parents[2]
TORCH = {"python": "3.11.7", "torch": "2.6.0+cu118", "cuda_build": "11.8", "cuda": True}
TORCH |= {"cudnn": 90100, "nccl": "2.21.5", "capability": [9, 0], "kernels": ["sm_80", "sm_90"]}
GPU = GpuSeen(name="NVIDIA H200", driver="560.1", free_gib=139, total_gib=140, processes=0)
WELL = MachineSeen(
    cores=16,
    busy_cores=0.01,
    memory_free_gib=100,
    disk_free_gib=60,
    tools={"g++": True, "git": True},
    gpus=[GPU],
    libraries=dict.fromkeys(ORT_LIBRARIES, True),
    stacks=[StackSeen(name="ort", torch=TORCH), StackSeen(name="modern", torch=TORCH)],
    backends={"pytorch": None, "ortmodule": None},
    default_backends=["pytorch", "ortmodule"],
)


def test_a_healthy_machine_has_only_findings_that_are_ok() -> None:
    found = judge(WELL)
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
        {
            "driver_problem": Refusal(
                "The NVIDIA driver does not answer (NVML: x)", "repair it, or choose device=cpu"
            )
        },
        *("NVIDIA driver", "broken", "does not answer", "repair it, or choose device=cpu."),
    ),
    ({"gpus": [replace(GPU, processes=2)]}, "GPU 0", "poor", "2 processes", "CUDA_VISIBLE_DEVICES"),
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
        {"stacks": [StackSeen(name="ort", import_error="ImportError: libfoo.so.7")]},
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
        {"backends": {"pytorch": None, "ortmodule": Refusal("torch is not installed", "run `make setup`")}},
        *("backends", "broken", "ortmodule: torch is not installed", "run `make setup`."),
    ),
    (
        {
            "backends": {
                name: Refusal(f"backends.{name} needs modern", "set it up")
                for name in ("x@modern", "y@modern")
            }
        },
        *("backends", "poor", "x@modern, y@modern: needs modern", "set it up."),
    ),
    (
        {
            "stacks": [
                StackSeen(
                    name="ort", pending=["everything"], unsuitable=Refusal("No Python 3.11", "install one")
                )
            ]
        },
        *("stack ort", "broken", "No Python 3.11", "install one."),
    ),
]


@pytest.mark.parametrize(("change", "what", "state", "detail", "remedy"), BROKEN)
def test_every_problem_is_named_with_its_remedy(
    change: dict[str, object], what: str, state: str, detail: str, remedy: str
) -> None:
    [one] = [one for one in judge(replace(WELL, **change)) if one.state != "ok"]  # type: ignore[arg-type]
    assert (one.what, one.state) == (what, state)
    assert detail in one.detail
    assert remedy in one.remedy


def test_a_machine_without_gpus_has_one_finding_about_them() -> None:
    found = {one.what: one for one in judge(replace(WELL, gpus=[]))}
    assert found["GPUs"] == Finding(
        what="GPUs", state="ok", detail="none visible: comparisons run on the CPU"
    )
    assert "stack ort: CUDA" not in found


def doctor_here(path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.doctor"],
        cwd=ROOT,
        env={"PATH": path, "COLUMNS": "1000", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_machine_would_run_the_default_comparison() -> None:
    well = doctor_here("/usr/local/bin:/usr/bin:/bin")
    assert well.returncode == 0, well.stdout + well.stderr
    line = next(line for line in well.stdout.splitlines() if line.startswith("backends"))
    runs = set(line.partition("would run: ")[2].split(", "))
    assert set(compose([]).backends) <= runs
    # On a CPU torch 2.6 has no FSDP2, and what its Inductor compiles diverges (tests/real/test_choices.py).
    assert {"pytorch_fsdp2", "compile"} & runs == (
        set() if stacks.own() == "ort" else {"pytorch_fsdp2", "compile"}
    )
    assert f"stack {stacks.own()}" in well.stdout


def test_of_a_broken_machine_the_doctor_says_what_is_broken_and_how_to_repair_it(tmp_path: Path) -> None:
    """Without a compiler, and with a driver whose libraries are of another version than its module."""
    driver = tmp_path / "libnvidia-ml.so.1"
    code = "int nvmlInit_v2(void) { return 18; } int nvmlInitWithFlags(unsigned f) { return 18; }"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(driver)]
    subprocess.run(command, input=code, text=True, check=True)
    broken = doctor_here(str(tmp_path), LD_LIBRARY_PATH=str(tmp_path))
    assert broken.returncode == 1
    found = broken.stdout.splitlines()
    for what, detail, remedy in (
        ("g++ ", "not on PATH", "→ install it (on Debian or Ubuntu: apt install g++)"),
        ("NVIDIA driver ", "The NVIDIA driver does not answer", "→ repair it, or choose device=cpu."),
    ):
        place, line = next(item for item in enumerate(found) if item[1].startswith(what))
        assert "broken" in line
        assert detail in line
        assert found[place + 1].strip() == remedy
    assert "0 broken" not in found[-1]


def test_a_checkout_in_which_nothing_is_set_up_is_examined_without_setting_it_up(tmp_path: Path) -> None:
    """By whatever Python there is, with nothing installed; then after a set-up that broke off."""
    for part in ("bench", "requirements"):
        shutil.copytree(ROOT / part, tmp_path / part)
    shutil.copy(ROOT / "Makefile", tmp_path)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = Path(sys.base_prefix, "bin", f"python{version}")
    command = ["make", "doctor", f"PYTHON={python}", f"STACK={stacks.own()}"]

    def examined() -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    assert f"stack {stacks.own()} broken not set up: everything to be done → run `make setup" in examined()
    known = recipes.STACKS[stacks.own()]
    env = tmp_path / known.folder
    env.mkdir()
    choice = {"python": str(python), "version": f"{version}.0", "device": "cpu"}
    choice_file(env).write_text(json.dumps(choice))
    assert f"stack {stacks.own()} broken not set up: venv, packages, " in examined()
    assert not (env / "bin").exists()


def test_a_torch_that_cannot_be_imported_is_reported_by_its_last_line(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Traceback' >&2\necho 'OSError: libcudart.so.11.0' >&2\nexit 1\n")
    python.chmod(0o755)
    assert ask_torch(str(python)) == (None, "OSError: libcudart.so.11.0")
    python.write_text(f"#!/bin/sh\necho noise\necho '{json.dumps(TORCH)}'\n")
    assert ask_torch(str(python)) == (TORCH, "")
