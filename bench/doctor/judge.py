"""What of a machine is well, what is not, and what to do about it.

A pure function of what was seen, so that machines which are not at hand can be judged, too.
"""

import re
from dataclasses import dataclass, replace

from bench.doctor.seen import MachineSeen, Refusal, StackSeen
from bench.setup.recipes import STACKS
from bench.setup.surroundings import find_old_driver

LEAST_FREE_GIB = 2
"""Memory that two ranks of the smallest model need under three backends."""

BUSY = 0.1
"""Cores that other work may take before it disturbs blocks, whose limit is 5 % of a rank's core."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One judgement; `state` is `ok`, `poor` (it runs, with a drawback) or `broken`."""

    what: str
    state: str
    detail: str
    remedy: str = ""


def judge(machine: MachineSeen) -> list[Finding]:
    """Return what of all that was seen is well, and what is not, with its remedy."""
    return [
        *_judge_machine(machine),
        *_judge_gpus(machine),
        *(finding for stack in machine.stacks for finding in _judge_stack(stack, machine)),
        *_judge_backends(machine),
    ]


def _judge_backends(machine: MachineSeen) -> list[Finding]:
    """Return one finding for the backends that would run, and one for every reason why some would not."""
    by_refusal: dict[Refusal | None, list[str]] = {}
    for name, refusal in machine.backends.items():
        if refusal:  # the same for several, apart from their names
            refusal = replace(refusal, reason=refusal.reason.removeprefix(f"backends.{name} "))
        by_refusal.setdefault(refusal, []).append(name)
    findings = []
    if runs := by_refusal.pop(None, []):
        findings.append(Finding(what="backends", state="ok", detail=f"would run: {', '.join(runs)}"))
    for refusal, names in by_refusal.items():
        assert refusal is not None
        wanted = not set(names).isdisjoint(machine.default_backends)
        findings.append(
            Finding(
                what="backends",
                state="broken" if wanted else "poor",
                detail=f"{', '.join(names)}: {refusal.reason}",
                remedy=_sentence(refusal.remedy),
            )
        )
    return findings


def _sentence(remedy: str) -> str:
    return f"{remedy}." if remedy else ""


def _judge_machine(machine: MachineSeen) -> list[Finding]:
    few, busy = machine.cores < 2, machine.busy_cores > BUSY
    needed_gib = STACKS[machine.chosen].disk_gib["cuda" if machine.gpus else "cpu"]
    low = machine.memory_free_gib < LEAST_FREE_GIB
    to_be_set_up = any(stack.pending for stack in machine.stacks if stack.name == machine.chosen)
    full = to_be_set_up and machine.disk_free_gib < needed_gib
    return [
        Finding(what="CPU", state="ok", detail=machine.cpu),
        Finding(
            what="cores",
            state="poor" if few else "ok",
            detail=f"{machine.cores}" + (", one rank only: no sharding" * few),
            remedy="allow this process more, in its container or with taskset" if few else "",
        ),
        Finding(
            what="other work",
            state="poor" if busy else "ok",
            detail=f"takes {machine.busy_cores:.1f} cores",
            remedy="end it, or blocks will be measured again and found invalid" if busy else "",
        ),
        Finding(
            what="memory",
            state="poor" if low else "ok",
            detail=f"{machine.memory_free_gib:.1f} GiB free",
            remedy="end other processes, or set measure.resident=one" if low else "",
        ),
        Finding(
            what="disk",
            state="poor" if full else "ok",
            detail=f"{machine.disk_free_gib:.0f} GiB free",
            remedy=f"make room: setting up the {machine.chosen} stack needs {needed_gib} GiB" if full else "",
        ),
        *(
            Finding(
                what=tool,
                state="ok" if there else "broken",
                detail="found" if there else "not on PATH",
                remedy="" if there else f"install it (on Debian or Ubuntu: apt install {tool})",
            )
            for tool, there in machine.tools.items()
        ),
    ]


def _judge_gpus(machine: MachineSeen) -> list[Finding]:
    if problem := machine.driver_problem:
        remedy = _sentence(problem.remedy)
        return [Finding(what="NVIDIA driver", state="broken", detail=problem.reason, remedy=remedy)]
    if not machine.gpus:
        return [Finding(what="GPUs", state="ok", detail="none visible: comparisons run on the CPU")]
    findings = [Finding(what="NVIDIA driver", state="ok", detail=machine.gpus[0].driver)]
    for number, gpu in enumerate(machine.gpus):
        used = gpu.processes > 0
        findings.append(
            Finding(
                what=f"GPU {number}",
                state="poor" if used else "ok",
                detail=f"{gpu.name}, {gpu.free_gib:.0f} of {gpu.total_gib:.0f} GiB free"
                + (f", {gpu.processes} processes" if used else ""),
                remedy="end them, or leave this GPU out with CUDA_VISIBLE_DEVICES" if used else "",
            )
        )
    return findings


def _judge_stack(stack: StackSeen, machine: MachineSeen) -> list[Finding]:
    make = STACKS[stack.name].make
    what = f"stack {stack.name}"
    grave = "broken" if stack.name == machine.chosen else "poor"
    old = find_old_driver(STACKS[stack.name], machine.gpus[0].driver) if machine.gpus else None
    if old and stack.device != "cpu":
        return [Finding(what=what, state=grave, detail=old.reason, remedy=_sentence(old.remedy))]
    if stack.pending:
        detail, remedy = f"not set up: {', '.join(stack.pending)} to be done", f"run `{make}`"
        if stack.unsuitable:
            detail, remedy = stack.unsuitable.reason, _sentence(stack.unsuitable.remedy)
        return [Finding(what=what, state=grave, detail=detail, remedy=remedy)]
    if stack.torch is None:
        return [
            Finding(
                what=what,
                state=grave,
                detail=f"torch: {stack.import_error}",
                remedy=f"run `{make}` anew after `make clean`",
            )
        ]
    versions = f"Python {stack.torch['python']}, torch {stack.torch['torch']}"
    findings = [Finding(what=what, state="ok", detail=versions)]
    if stack.wrong:
        findings.append(
            Finding(
                what=f"{what}: versions",
                state="poor",
                detail="not the pinned ones: " + ", ".join(stack.wrong),
                remedy=f"run `make clean` and `{make}`, or say so when you publish",
            )
        )
    if stack.plain_onnxruntime:
        findings.append(
            Finding(
                what=f"{what}: {stack.plain_onnxruntime}",
                state="broken",
                detail="overwrites ONNX Runtime Training's module",
                remedy=f"run `make clean` and `{make}`",
            )
        )
    return findings + _judge_cuda(what, make, stack, machine)


def _judge_cuda(what: str, make: str, stack: StackSeen, machine: MachineSeen) -> list[Finding]:
    """Return what a stack can do with the GPUs of this machine; `make` sets it up."""
    torch = stack.torch
    if not machine.gpus or torch is None:
        return []
    if stack.name == "ort" and stack.device == "cpu":
        return [
            Finding(
                what=f"{what}: CUDA",
                state="poor",
                detail="the packages are those for a CPU",
                remedy=f"run `{make} SETUP_ARGS='--device cuda'` to measure on the GPUs",
            )
        ]
    if not torch["cuda"]:
        build = torch["cuda_build"]
        return [
            Finding(
                what=f"{what}: CUDA",
                state="broken",
                detail="this torch is a build for CPUs"
                if build is None
                else f"its CUDA {build} finds no GPU",
                remedy="install a torch that is built for CUDA"
                if build is None
                else f"install a driver for CUDA {build}, or look at LD_LIBRARY_PATH",
            )
        ]
    major, minor = torch["capability"]
    kernels = torch["kernels"]
    newest = max((int(number) for name in kernels for number in re.findall(r"sm_(\d+)", name)), default=0)
    old = newest < major * 10 + minor and not any(name.startswith("compute_") for name in kernels)
    findings = [
        Finding(
            what=f"{what}: CUDA",
            state="broken" if old else "ok",
            detail=f"CUDA {torch['cuda_build']}, cuDNN {torch['cudnn']}, NCCL {torch['nccl']}, "
            f"sm_{major}{minor}" + (", for which it has no kernels" * old),
            remedy="install a torch that is built for this GPU" if old else "",
        )
    ]
    set_up = f"run `{make} SETUP_ARGS='--device cuda'`"
    if stack.name == "ort" and not stack.compiler:
        findings.append(
            Finding(
                what=f"{what}: nvcc",
                state="poor",
                detail="not found, and DeepSpeed asks for one when it is imported",
                remedy=f"{set_up}, or set CUDA_HOME",
            )
        )
    findings += [
        Finding(
            what=f"{what}: {library}",
            state="broken",
            detail="not found; ONNX Runtime's CUDA kernels need it",
            remedy=f"{set_up}, or add its folder to LD_LIBRARY_PATH",
        )
        for library in torch.get("missing_libraries", [])
    ]
    return findings
