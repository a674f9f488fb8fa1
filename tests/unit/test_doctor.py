"""What the doctor says of machines that are well and of those that are not."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from bench.errors import UserError
from bench.plugins.doctor import probe
from bench.plugins.doctor.judge import NEVER_SET_UP, BackendSeen, Diagnosis, MachineSeen, StackSeen, judge
from bench.setup.nvidia_smi import ListedGpu

TORCH = {"python": "3.11.7", "torch": "2.6.0+cu124", "cuda_build": "12.4", "cuda": True}
TORCH |= {"cudnn": 90100, "nccl": "2.21.5", "capability": [9, 0], "kernels": ["sm_80", "sm_90"]}
GPU = ListedGpu("NVIDIA H200", "580.95.05", total_mib=140 * 1024, free_mib=139 * 1024)
WELL_STACK = StackSeen(name="ort", torch=TORCH, device="cuda")
WELL = MachineSeen(
    cpu="AMD EPYC (AuthenticAMD family 25, model 1, stepping 1)",
    cores=16,
    busy_cores=0.01,
    memory_free_gib=100,
    disk_free_gib=60,
    gpus=[GPU],
    stacks=[WELL_STACK, replace(WELL_STACK, name="modern")],
    backends={"pytorch": BackendSeen(), "ortmodule": BackendSeen(), "x@modern": BackendSeen(stack="modern")},
    default_backends=["pytorch", "ortmodule"],
)


def test_a_healthy_machine_has_only_findings_that_are_ok() -> None:
    found = judge(WELL)
    assert {one.state for one in found} == {"ok"}
    assert {one.remedy for one in found} == {""}
    details = {one.part: one.detail for one in found}
    assert details["CPU"] == "AMD EPYC (AuthenticAMD family 25, model 1, stepping 1)"
    assert details["GPU 0"] == "NVIDIA H200, 139 of 140 GiB free"
    assert details["stack ort: CUDA"] == "CUDA 12.4, cuDNN 90100, NCCL 2.21.5, sm_90"


def test_what_the_kernel_does_not_count_is_not_called_quiet() -> None:
    judged = judge(replace(WELL, busy_cores=math.nan))
    assert [each.detail for each in judged if each.part == "other work"] == ["not known"]


NEW_ORT = StackSeen(name="ort", pending=NEVER_SET_UP)


def of_stack(**changes: object) -> dict[str, object]:
    """A machine with one stack alone, which has these in place of what is well."""
    return {"stacks": [replace(WELL_STACK, **changes)]}  # type: ignore[arg-type]


def with_torch(**changes: object) -> dict[str, object]:
    return of_stack(torch=TORCH | changes)


BROKEN = [
    ({"cores": 1}, "cores", "poor", "one rank only", "taskset"),
    ({"busy_cores": 1.5}, "other work", "poor", "takes 1.5 cores", "end it"),
    ({"memory_free_gib": 0.5}, "memory", "poor", "0.5 GiB", "measure.schedule=sequential"),
    ({"lacking": ["git", "g++"], "how_to_install": "x"}, "programs", "broken", "missing: git, g++", "x"),
    ({"lacking": ["git"], "how_to_install": "apt"}, "programs", "poor", "missing: git", "apt"),
    (
        {"stacks": [replace(NEW_ORT, brings_python="3.12")]},
        *("stack ort", "poor", "not set up yet; no Python here will do, and uv brings 3.12"),
        "run `make setup`",
    ),
    (
        {"driver_problem": UserError("The NVIDIA driver does not answer (NVML: x)", "repair it")},
        *("NVIDIA driver", "broken", "does not answer", "repair it."),
    ),
    ({"gpus": [replace(GPU, processes=2)]}, "GPU 0", "poor", "2 processes", "CUDA_VISIBLE_DEVICES"),
    (
        with_torch(missing_libraries=["libcudnn.so.8"]),
        *("stack ort: libcudnn.so.8", "broken", "ONNX Runtime's CUDA kernels need it", "--device cuda"),
    ),
    (
        of_stack(device="cpu"),
        *("stack ort: CUDA", "poor", "those for a CPU", "make setup SETUP_ARGS='--device cuda'"),
    ),
    (
        of_stack() | {"gpus": [replace(GPU, driver="470.57.02")]},
        *("stack ort", "broken", "the ort stack's CUDA 12.4 needs 525.60.13", "install a newer driver"),
    ),
    (
        of_stack(name="modern") | {"gpus": [replace(GPU, driver="550.54.15")]},
        *("stack modern", "poor", "the modern stack's CUDA 13.0 needs 580.65.06", "install a newer driver"),
    ),
    (
        {"stacks": [replace(NEW_ORT, pending=["ortmodule", "deepspeed"])]},
        *("stack ort", "broken", "ortmodule, deepspeed to be done", "run `make setup`"),
    ),
    (
        {"stacks": [replace(NEW_ORT, name="modern")]},
        *("stack modern", "poor", "not set up", "run `make setup STACK=modern`"),
    ),
    (
        {"stacks": [StackSeen(name="ort", import_error="ImportError: libfoo.so.7")]},
        *("stack ort", "broken", "ImportError: libfoo.so.7", "make clean"),
    ),
    (
        of_stack(wrong=["torch 2.5.0 instead of 2.6.0"]),
        *("stack ort: versions", "poor", "torch 2.5.0 instead of 2.6.0", "make clean"),
    ),
    (
        with_torch(cuda=False, cuda_build=None),
        *("stack ort: CUDA", "broken", "a build for CPUs", "built for CUDA"),
    ),
    (with_torch(cuda=False), "stack ort: CUDA", "broken", "finds no GPU", "driver for CUDA 12.4"),
    (with_torch(capability=[12, 0]), "stack ort: CUDA", "broken", "no kernels", "built for this GPU"),
    (
        {"backends": {"pytorch": BackendSeen(), "ortmodule": BackendSeen(UserError("no torch", "get it"))}},
        *("backends", "broken", "ortmodule: no torch", "get it."),
    ),
    (
        {
            "backends": {
                name: BackendSeen(UserError(f"backends.{name} needs modern", "set it up"))
                for name in ("x@modern", "y@modern")
            }
        },
        *("backends", "poor", "x@modern, y@modern: needs modern", "set it up."),
    ),
    (
        {"stacks": [replace(NEW_ORT, unsuitable=UserError("glibc 2.17", "a newer one"))]},
        *("stack ort", "broken", "glibc 2.17", "a newer one."),
    ),
]


@pytest.mark.parametrize(("change", "what", "state", "detail", "remedy"), BROKEN)
def test_every_problem_is_named_with_its_remedy(
    change: dict[str, object], what: str, state: str, detail: str, remedy: str
) -> None:
    judged = judge(replace(WELL, **change))  # type: ignore[arg-type]
    [one] = [one for one in judged if one.state != "ok" and not one.detail.endswith("stack is broken")]
    assert (one.part, one.state) == (what, state)
    assert detail in one.detail
    assert remedy in one.remedy


def test_a_wrong_version_is_named_also_where_a_set_up_is_not_finished() -> None:
    stack = StackSeen(name="ort", pending=["ortmodule"], wrong=["torch 2.7.0 instead of 2.6.0"])
    details = {one.part: one.detail for one in judge(replace(WELL, stacks=[stack]))}
    assert details["stack ort"] == "not set up: ortmodule to be done"
    assert details["stack ort: versions"] == "not the pinned ones: torch 2.7.0 instead of 2.6.0"


@pytest.mark.parametrize(
    "broken",
    [
        StackSeen(name="ort", pending=["ortmodule"]),
        StackSeen(name="ort", import_error="ImportError: libfoo.so.7"),
        replace(WELL_STACK, torch={**TORCH, "cuda": False}),
    ],
)
def test_no_backend_of_a_broken_stack_would_run(broken: StackSeen) -> None:
    def judged(stack: StackSeen) -> list[Diagnosis]:
        other = replace(WELL_STACK, name="modern" if stack.name == "ort" else "ort")
        return [one for one in judge(replace(WELL, stacks=[stack, other])) if one.part == "backends"]

    runs, refused = judged(broken)
    assert (runs.detail, refused.state) == ("would run: x@modern", "broken")
    assert refused.detail == "pytorch, ortmodule: the ort stack is broken"
    runs, refused = judged(replace(broken, name="modern"))
    assert (runs.detail, refused.state) == ("would run: pytorch, ortmodule", "poor")
    assert refused.detail == "x@modern: the modern stack is broken"


def test_disk_is_needed_for_a_set_up_and_not_after_it() -> None:
    def disk(*stacks: StackSeen) -> Diagnosis:
        return next(one for one in judge(replace(WELL, disk_free_gib=3, stacks=stacks)) if one.part == "disk")

    assert disk(WELL_STACK).state == "ok"
    low = disk(StackSeen(name="ort", pending=["packages"]))
    assert (low.state, low.detail) == ("poor", "3 GiB free")
    assert low.remedy == "make room: setting up the ort stack needs 14 GiB"


def test_the_packages_for_a_cpu_need_no_driver() -> None:
    gpus = [replace(GPU, driver="470.57.02")]
    judged = judge(replace(WELL, gpus=gpus, stacks=[replace(WELL_STACK, device="cpu")]))
    assert [one.detail for one in judged if one.state != "ok"] == ["the packages are those for a CPU"]


def test_a_machine_without_gpus_has_one_finding_about_them() -> None:
    found = {one.part: one for one in judge(replace(WELL, gpus=[]))}
    assert found["GPUs"] == Diagnosis("GPUs", "none visible: comparisons run on the CPU")
    assert "stack ort: CUDA" not in found


def test_a_backend_s_file_with_a_mistake_is_refused_and_the_others_are_not(
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
    monkeypatch.setattr(probe, "CONF", tmp_path)
    seen, default = probe._backends(driver=False)
    assert [name for name, backend in seen.items() if backend.refusal is None] == ["good"]
    assert "pytorch" in default
