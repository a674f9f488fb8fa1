"""What can be seen of a machine, and a pure function that says what of it is well and what to do."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.errors import UserError
from bench.setup.nvidia_smi import ListedGpu
from bench.setup.recipes import STACKS
from bench.setup.surroundings import COMPILER, PACKAGES, VENV, find_old_driver

LEAST_FREE_GIB = 2  # memory that two ranks of the smallest model need under three backends
NEVER_SET_UP = ("everything",)
"""What is pending where no set-up has begun."""

BUSY = 0.1  # cores that other work may take before it disturbs blocks, whose limit is 5 % of a rank's core


@dataclass(frozen=True, kw_only=True)
class StackSeen:
    """One stack, as it was seen."""

    name: str
    # the stages of its set-up that are not done; all of them if it was never set up
    pending: Sequence[str] = ()
    # packages whose version is not the pinned one, such as `torch 2.5.0 instead of 2.6.0`
    wrong: Sequence[str] = ()
    torch: Mapping[str, Any] | None = None  # what its torch says of itself; None if it cannot be imported
    import_error: str = ""  # the last line of what importing torch printed then
    unsuitable: UserError | None = None  # why it cannot be set up here
    brings_python: str = ""  # the version of Python that its set-up would bring; empty if one here will do
    # the packages' device, as `make setup` recorded it; empty if it did not make the environment
    device: str = ""


@dataclass(frozen=True)
class BackendSeen:
    """Why a comparison of this backend alone would be refused or fail, if it is known; and its stack."""

    refusal: UserError | None = None
    stack: str = "ort"


@dataclass(frozen=True, kw_only=True)
class MachineSeen:
    """A machine, as it was seen."""

    cpu: str  # in words, with vendor, family and model: a marketing name is not enough
    cores: int
    busy_cores: float
    memory_free_gib: float
    disk_free_gib: float
    lacking: Sequence[str] = ()  # of `bench.setup.surroundings.PACKAGES`
    how_to_install: str = ""  # what is lacking
    gpus: Sequence[ListedGpu] = ()
    driver_problem: UserError | None = None
    stacks: Sequence[StackSeen] = ()
    backends: Mapping[str, BackendSeen] = field(default_factory=dict)
    default_backends: Sequence[str] = ()
    chosen: str = "ort"  # the stack that the doctor was asked about: without it nothing runs


@dataclass(frozen=True)
class Diagnosis:
    """One judgement; `state` is `ok`, `poor` (it runs, with a drawback) or `broken`."""

    part: str
    detail: str
    state: str = "ok"
    remedy: str = ""


def judge(machine: MachineSeen) -> list[Diagnosis]:
    """Return what of all that was seen is well, and what is not, with its remedy."""
    of_stacks = {stack.name: _judge_stack(stack, machine) for stack in machine.stacks}
    broken = [name for name, judged in of_stacks.items() if "broken" in {each.state for each in judged}]
    diagnoses = [*_judge_machine(machine), *_judge_gpus(machine)]
    for name, judged in of_stacks.items():
        for diagnosis in judged:
            tolerable = diagnosis.state == "broken" and name != machine.chosen
            diagnoses.append(replace(diagnosis, state="poor") if tolerable else diagnosis)
    return diagnoses + _judge_backends(machine, broken)


def _either(part: str, detail: str, fault: str, remedy: str) -> Diagnosis:
    """Without a fault (`poor`, `broken` or empty) nothing is to be done."""
    return Diagnosis(part, detail, fault, remedy) if fault else Diagnosis(part, detail)


def _refused(part: str, state: str, refusal: UserError) -> Diagnosis:
    return Diagnosis(part, refusal.reason, state, f"{refusal.remedy}." if refusal.remedy else "")


def _judge_backends(machine: MachineSeen, broken_stacks: Collection[str]) -> list[Diagnosis]:
    runs = []
    by_refusal: dict[tuple[str, str], list[str]] = {}
    for name, seen in machine.backends.items():
        refusal = seen.refusal
        if not refusal and seen.stack in broken_stacks:
            refusal = UserError(f"the {seen.stack} stack is broken", "repair it as said above")
        if not refusal:
            runs.append(name)
        else:  # the same for several, apart from their names
            reason = refusal.reason.removeprefix(f"backends.{name} ")
            by_refusal.setdefault((reason, refusal.remedy), []).append(name)
    diagnoses = [Diagnosis("backends", f"would run: {', '.join(runs)}")] if runs else []
    for (reason, remedy), names in by_refusal.items():
        state = "poor" if set(names).isdisjoint(machine.default_backends) else "broken"
        diagnoses.append(_refused("backends", state, UserError(f"{', '.join(names)}: {reason}", remedy)))
    return diagnoses


def _judge_machine(machine: MachineSeen) -> list[Diagnosis]:
    few = machine.cores < 2
    needed_gib = STACKS[machine.chosen].disk_gib["cuda" if machine.gpus else "cpu"]
    to_be_set_up = any(stack.pending for stack in machine.stacks if stack.name == machine.chosen)
    return [
        Diagnosis("CPU", machine.cpu),
        _either(
            "cores",
            f"{machine.cores}" + ", one rank only: no sharding" * few,
            "poor" * few,
            "allow this process more, in its container or with taskset",
        ),
        _either(
            "other work",
            "not known" if math.isnan(machine.busy_cores) else f"takes {machine.busy_cores:.1f} cores",
            "poor" * (machine.busy_cores > BUSY),
            "end it, or blocks will be measured again and found invalid",
        ),
        _either(
            "memory",
            f"{machine.memory_free_gib:.1f} GiB free",
            "poor" * (machine.memory_free_gib < LEAST_FREE_GIB),
            "end other processes, or set measure.schedule=sequential",
        ),
        _either(
            "disk",
            f"{machine.disk_free_gib:.0f} GiB free",
            "poor" * (to_be_set_up and machine.disk_free_gib < needed_gib),
            f"make room: setting up the {machine.chosen} stack needs {needed_gib} GiB",
        ),
        _either(
            "programs",
            f"missing: {', '.join(machine.lacking)}" if machine.lacking else ", ".join(PACKAGES),
            ("broken" if {COMPILER, VENV} & set(machine.lacking) else "poor") if machine.lacking else "",
            machine.how_to_install,
        ),
    ]


def _judge_gpus(machine: MachineSeen) -> list[Diagnosis]:
    if machine.driver_problem:
        return [_refused("NVIDIA driver", "broken", machine.driver_problem)]
    if not machine.gpus:
        return [Diagnosis("GPUs", "none visible: comparisons run on the CPU")]
    diagnoses = [Diagnosis("NVIDIA driver", machine.gpus[0].driver)]
    for number, gpu in enumerate(machine.gpus):
        room = f"{gpu.name}, {gpu.free_mib / 2**10:.0f} of {gpu.total_mib / 2**10:.0f} GiB free"
        others = f", {gpu.processes} processes" if gpu.processes else ""
        remedy = "end them, or leave this GPU out with CUDA_VISIBLE_DEVICES"
        diagnoses.append(_either(f"GPU {number}", room + others, "poor" * bool(others), remedy))
    return diagnoses


def _judge_stack(stack: StackSeen, machine: MachineSeen) -> list[Diagnosis]:
    make = STACKS[stack.name].make
    part = f"stack {stack.name}"
    old = find_old_driver(STACKS[stack.name], machine.gpus[0].driver) if machine.gpus else None
    if old and stack.device != "cpu":
        return [_refused(part, "broken", old)]
    if stack.unsuitable:
        return [_refused(part, "broken", stack.unsuitable)]
    versions = []
    anew = f"run `make clean` and `{make}`"
    if stack.wrong:
        detail = "not the pinned ones: " + ", ".join(stack.wrong)
        versions = [Diagnosis(f"{part}: versions", detail, "poor", f"{anew}, or say so when you publish")]
    if stack.pending == NEVER_SET_UP:
        python = f"; no Python here will do, and uv brings {stack.brings_python}" * bool(stack.brings_python)
        return [Diagnosis(part, f"not set up yet{python}", "poor", f"run `{make}`, or what needs it will")]
    if stack.pending:
        undone = f"not set up: {', '.join(stack.pending)} to be done"
        return [Diagnosis(part, undone, "broken", f"run `{make}`"), *versions]
    if stack.torch is None:
        return [Diagnosis(part, f"torch: {stack.import_error}", "broken", anew), *versions]
    python = f"Python {stack.torch['python']}, torch {stack.torch['torch']}"
    return [Diagnosis(part, python), *versions, *(_judge_cuda(part, make, stack) if machine.gpus else [])]


def _judge_cuda(part: str, make: str, stack: StackSeen) -> list[Diagnosis]:
    """What a stack with a torch can do with the GPUs of this machine; `make` sets it up."""
    torch = stack.torch
    assert torch is not None
    cuda, set_up = f"{part}: CUDA", f"run `{make} SETUP_ARGS='--device cuda'`"
    if stack.name == "ort" and stack.device == "cpu":
        detail = "the packages are those for a CPU"
        return [Diagnosis(cuda, detail, "poor", f"{set_up} to measure on the GPUs")]
    build = torch["cuda_build"]
    if not torch["cuda"] and build is None:
        remedy = "install a torch that is built for CUDA"
        return [Diagnosis(cuda, "this torch is a build for CPUs", "broken", remedy)]
    if not torch["cuda"]:
        remedy = f"install a driver for CUDA {build}, or look at LD_LIBRARY_PATH"
        return [Diagnosis(cuda, f"its CUDA {build} finds no GPU", "broken", remedy)]
    major, minor = torch["capability"]
    kernels = torch["kernels"]
    newest = max((int(number) for name in kernels for number in re.findall(r"sm_(\d+)", name)), default=0)
    old = newest < major * 10 + minor and not any(name.startswith("compute_") for name in kernels)
    versions = f"CUDA {build}, cuDNN {torch['cudnn']}, NCCL {torch['nccl']}, sm_{major}{minor}"
    detail = versions + ", for which it has no kernels" * old
    remedy = "install a torch that is built for this GPU"
    diagnosis = _either(cuda, detail, "broken" * old, remedy)
    missing = "not found; ONNX Runtime's CUDA kernels need it"
    remedy = f"{set_up}, or add its folder to LD_LIBRARY_PATH"
    libraries = torch.get("missing_libraries", [])
    return [diagnosis, *(Diagnosis(f"{part}: {name}", missing, "broken", remedy) for name in libraries)]
