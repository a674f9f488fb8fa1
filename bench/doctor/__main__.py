"""What would run on this machine, what would not, and how to mend it: `make doctor`.

`examine` looks, `findings` judges: the judgement is a pure function of what was seen, so that machines which
are not at hand can be judged, too. Imports no torch; asks each stack's own interpreter what its torch sees.
Any Python from 3.10 on will do, with nothing installed: the machine to examine is one on which nothing works.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.config.backend import Backend
from bench.errors import UserError
from bench.machine import facts
from bench.machine.telemetry.gpus import visible_gpus
from bench.measure import preflight
from bench.setup import bootstrap, stacks
from bench.setup.stacks import ROOT

LEAST_DISK_GIB = 8
"""That one stack needs while it is set up."""

LEAST_FREE_GIB = 2
"""Of memory, for two ranks of the smallest model under three backends."""

BUSY = 0.1
"""Cores that other work may take before it disturbs blocks: their gate is 5 % of a rank's core."""

SECONDS = 120
"""That an interpreter may take to import torch; a cold disk may need half of it."""

ORT_LIBRARIES = {"libcublas.so.11": "CUDA 11.8", "libcudnn.so.8": "cuDNN 8"}
"""What onnxruntime-training 1.19.2 for GPUs links against, and what brings it."""

ASK_TORCH = """
import json, sys
found = {"python": sys.version.split()[0]}
import torch
found["torch"] = torch.__version__
found["cuda_build"] = torch.version.cuda
found["cuda"] = torch.cuda.is_available()
if found["cuda"]:
    found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    found["cudnn"] = torch.backends.cudnn.version()
    found["capability"] = list(torch.cuda.get_device_capability())
    found["kernels"] = torch.cuda.get_arch_list()
print(json.dumps(found))
"""


@dataclass(frozen=True, kw_only=True)
class StackSeen:
    """One stack as it was found.

    Args:
        pending: the stages of its set-up that are not done; all of them if it was never set up.
        wrong: packages whose version is not the pinned one, `name: there, wanted`.
        torch: what its torch says of itself; None if it cannot be imported.
        trouble: the last line of what importing torch printed then, or why it cannot be set up.
        plain_onnxruntime: a package that overwrites ONNX Runtime Training's module.
    """

    name: str
    pending: Sequence[str] = ()
    wrong: Sequence[str] = ()
    torch: Mapping[str, Any] | None = None
    trouble: str = ""
    plain_onnxruntime: str = ""


@dataclass(frozen=True, kw_only=True)
class Card:
    """One visible GPU."""

    name: str
    driver: str
    free_gib: float
    total_gib: float
    processes: int


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A machine as it was found."""

    cores: int
    busy_cores: float
    memory_free_gib: float
    disk_free_gib: float
    tools: Mapping[str, bool]
    cards: Sequence[Card] = ()
    driver_trouble: str = ""
    libraries: Mapping[str, bool] = field(default_factory=dict)
    stacks: Sequence[StackSeen] = ()
    backends: Mapping[str, str] = field(default_factory=dict)
    """Why each would be refused; empty: it would run."""

    default_backends: Sequence[str] = ()
    chosen: str = "ort"
    """The stack that is asked about: without it nothing runs."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the answer; `state` is `ok`, `poor` (it runs, but) or `broken`."""

    what: str
    state: str
    detail: str
    remedy: str = ""


def findings(seen: Seen) -> list[Finding]:
    """What of all that was seen is well, and what is not, with its remedy."""
    return [
        *_of_machine(seen),
        *_of_gpus(seen),
        *(one for stack in seen.stacks for one in _of_stack(stack, seen)),
        *_of_backends(seen),
    ]


def _of_backends(seen: Seen) -> list[Finding]:
    """Those that would run in one line, and one for every reason why some would not."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in seen.backends.items():
        by_reason.setdefault(reason.removeprefix(f"backends.{name} "), []).append(name)
    found = []
    if runs := by_reason.pop("", []):
        found.append(Finding(what="backends", state="ok", detail=f"would run: {', '.join(runs)}"))
    for reason, names in by_reason.items():
        detail, _, remedy = reason.partition("; ")
        wanted = not set(names).isdisjoint(seen.default_backends)
        state = "broken" if wanted else "poor"
        found.append(
            Finding(what="backends", state=state, detail=f"{', '.join(names)}: {detail}", remedy=remedy)
        )
    return found


def _of_machine(seen: Seen) -> list[Finding]:
    few, busy = seen.cores < 2, seen.busy_cores > BUSY
    low, full = seen.memory_free_gib < LEAST_FREE_GIB, seen.disk_free_gib < LEAST_DISK_GIB
    return [
        Finding(
            what="cores",
            state="poor" if few else "ok",
            detail=f"{seen.cores}" + (", one rank only: no sharding" * few),
            remedy="allow this process more, in its container or with taskset" if few else "",
        ),
        Finding(
            what="other work",
            state="poor" if busy else "ok",
            detail=f"takes {seen.busy_cores:.1f} cores",
            remedy="end it, or blocks will be measured again and found invalid" if busy else "",
        ),
        Finding(
            what="memory",
            state="poor" if low else "ok",
            detail=f"{seen.memory_free_gib:.1f} GiB free",
            remedy="end other processes, or set measure.resident=one" if low else "",
        ),
        Finding(
            what="disk",
            state="poor" if full else "ok",
            detail=f"{seen.disk_free_gib:.0f} GiB free",
            remedy=f"make room: setting up a stack needs {LEAST_DISK_GIB} GiB" if full else "",
        ),
        *(
            Finding(
                what=tool,
                state="ok" if there else "broken",
                detail="found" if there else "not on PATH",
                remedy="" if there else f"install it (on Debian or Ubuntu: apt install {tool})",
            )
            for tool, there in seen.tools.items()
        ),
    ]


def _of_gpus(seen: Seen) -> list[Finding]:
    if seen.driver_trouble:
        detail, _, remedy = seen.driver_trouble.partition("; ")
        return [Finding(what="NVIDIA driver", state="broken", detail=detail, remedy=remedy)]
    if not seen.cards:
        return [Finding(what="GPUs", state="ok", detail="none visible: comparisons run on the CPU")]
    found = [Finding(what="NVIDIA driver", state="ok", detail=seen.cards[0].driver)]
    for number, card in enumerate(seen.cards):
        used = card.processes > 0
        found.append(
            Finding(
                what=f"GPU {number}",
                state="poor" if used else "ok",
                detail=f"{card.name}, {card.free_gib:.0f} of {card.total_gib:.0f} GiB free"
                + (f", {card.processes} processes" if used else ""),
                remedy="end them, or leave this GPU out with CUDA_VISIBLE_DEVICES" if used else "",
            )
        )
    for library, there in seen.libraries.items():
        brought = ORT_LIBRARIES[library]
        found.append(
            Finding(
                what=library,
                state="ok" if there else "broken",
                detail="found" if there else "not found; ONNX Runtime Training's GPU package needs it",
                remedy="" if there else f"install {brought}, or use the image of containers/ort.Dockerfile",
            )
        )
    return found


def _of_stack(stack: StackSeen, seen: Seen) -> list[Finding]:
    make = "make setup" if stack.name == stacks.NAMES[0] else f"make setup STACK={stack.name}"
    what = f"stack {stack.name}"
    grave = "broken" if stack.name == seen.chosen else "poor"
    if stack.pending:
        detail = f"not set up: {', '.join(stack.pending)} to be done"
        detail, remedy = (stack.trouble.split(": ", 1)) if stack.trouble else (detail, f"run `{make}`")
        return [Finding(what=what, state=grave, detail=detail, remedy=remedy)]
    if stack.torch is None:
        return [
            Finding(
                what=what,
                state=grave,
                detail=f"torch: {stack.trouble}",
                remedy=f"run `{make}` anew after `make clean`",
            )
        ]
    versions = f"Python {stack.torch['python']}, torch {stack.torch['torch']}"
    found = [Finding(what=what, state="ok", detail=versions)]
    if stack.wrong:
        found.append(
            Finding(
                what=f"{what}: versions",
                state="poor",
                detail="not the pinned ones: " + ", ".join(stack.wrong),
                remedy=f"run `make clean` and `{make}`, or say so when you publish",
            )
        )
    if stack.plain_onnxruntime:
        found.append(
            Finding(
                what=f"{what}: {stack.plain_onnxruntime}",
                state="broken",
                detail="overwrites ONNX Runtime Training's module",
                remedy=f"run `make clean` and `{make}`",
            )
        )
    return found + _of_cuda(what, stack.torch, seen)


def _of_cuda(what: str, torch: Mapping[str, Any], seen: Seen) -> list[Finding]:
    """What a stack's torch can do with the GPUs that NVML shows."""
    if not seen.cards:
        return []
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
    return [
        Finding(
            what=f"{what}: CUDA",
            state="broken" if old else "ok",
            detail=f"CUDA {torch['cuda_build']}, cuDNN {torch['cudnn']}, NCCL {torch['nccl']}, "
            f"sm_{major}{minor}" + (", for which it has no kernels" * old),
            remedy="install a torch that is built for this GPU" if old else "",
        )
    ]


# --- looking --------------------------------------------------------------------------------------


def examine(stack: str) -> Seen:
    """Look at this machine for a stack; takes some seconds, most of them to import torch in each one."""
    cards, trouble = _cards()
    backends, default = _backends(driver=not trouble) if stack == stacks.own() else ({}, [])
    return Seen(
        chosen=stack,
        cores=facts.available_cores(),
        busy_cores=_busy_cores(),
        memory_free_gib=_available_gib(Path("/proc/meminfo").read_text(encoding="ascii")),
        disk_free_gib=shutil.disk_usage(ROOT).free / 2**30,
        tools={tool: shutil.which(tool) is not None for tool in ("g++", "make", "git")},
        cards=cards,
        driver_trouble=trouble,
        libraries={name: _loads(name) for name in ORT_LIBRARIES} if cards else {},
        stacks=[_stack(name) for name in stacks.NAMES],
        backends=backends,
        default_backends=default,
    )


def _available_gib(meminfo: str) -> float:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) / 2**20 if found else 0.0


def _busy_cores() -> float:
    """Cores' worth of work that all processes do, over half a second."""
    before, start = _busy_ticks(), time.monotonic()
    time.sleep(0.5)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - start)


def _busy_ticks() -> int:
    """Of all cores since the machine was started, but for idling and waiting for a disk (proc(5))."""
    user, nice, system, _, _, irq, soft_irq, *_ = map(
        int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    )
    return user + nice + system + irq + soft_irq


def _cards() -> tuple[list[Card], str]:
    try:
        gpus = visible_gpus()
    except UserError as error:
        return [], str(error)
    if not gpus:
        return [], ""
    import pynvml

    pynvml.nvmlInit()
    try:
        cards = []
        for gpu in gpus:
            handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            try:
                processes = len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
            except pynvml.NVMLError:
                processes = 0
            cards.append(
                Card(
                    name=gpu.name,
                    driver=gpu.driver,
                    free_gib=memory.free / 2**30,
                    total_gib=memory.total / 2**30,
                    processes=processes,
                )
            )
        return cards, ""
    finally:
        pynvml.nvmlShutdown()


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _stack(name: str) -> StackSeen:
    known = bootstrap.STACKS[name]
    env = ROOT / known.folder
    here = stacks.installed(name)
    choice = bootstrap.recorded_choice(env, known, None)
    if choice is not None:
        stages = known.stages(ROOT, env, choice)
        if undone := [stage.name for stage, _ in bootstrap.pending(stages, env)]:
            return StackSeen(name=name, pending=undone)
    elif here is None or "torch" not in here.packages:  # an image may bring an environment of its own
        try:
            bootstrap.find_python(known.pythons)
        except bootstrap.SetupFailed as error:
            return StackSeen(name=name, pending=["everything"], trouble=str(error))
        return StackSeen(name=name, pending=["everything"])
    if here is None:
        return StackSeen(name=name, pending=["everything"])
    torch, trouble = _ask_torch(here.interpreter)
    plain = next((one for one in ("onnxruntime", "onnxruntime-gpu") if one in here.packages), "")
    return StackSeen(
        name=name,
        wrong=_wrong_versions(name, here.packages),
        torch=torch,
        trouble=trouble,
        plain_onnxruntime=plain if name == "ort" else "",
    )


def _ask_torch(interpreter: str) -> tuple[Mapping[str, Any] | None, str]:
    done = subprocess.run(
        [interpreter, "-c", ASK_TORCH], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return json.loads(done.stdout.splitlines()[-1]), ""


def _wrong_versions(stack: str, packages: Mapping[str, str]) -> list[str]:
    """Of the packages that decide a result."""
    wanted: dict[str, str] = {}
    files = {"ort": ("ort-cpu.txt", "ort-gpu.txt"), "modern": ("modern.txt",)}[stack]
    for file in files:
        text = (ROOT / "requirements" / file).read_text(encoding="utf-8")
        wanted |= dict(
            re.findall(r"^(torch|transformers|deepspeed|onnxruntime-training(?:-cpu)?)==(\S+)", text, re.M)
        )
    return [
        f"{name} {packages[name]} instead of {version}"
        for name, version in sorted(wanted.items())
        if name in packages and packages[name].partition("+")[0] != version
    ]


def _backends(*, driver: bool) -> tuple[dict[str, str], list[str]]:
    """Why a comparison of each backend alone would be refused (empty: it would not), and the default ones."""
    try:
        from bench.config.choices import CONF
        from bench.config.compose import compose
    except ImportError:  # without Hydra there is no stack, which is said elsewhere
        return {}, []
    device = [] if driver else ["device=cpu"]  # all that is left with a driver that does not answer
    refused = {}
    for path in sorted((CONF / "backend").glob("*.yaml")):
        if "engine:" not in path.read_text("utf-8"):  # a list of backends
            continue
        try:
            config = compose([*device, f"backend=[{path.stem}]", f"reference={path.stem}"])
            preflight.check_packages(config)
            refused[path.stem] = _fate(config.backends[path.stem], config.device.type)
        except UserError as error:
            refused[path.stem] = str(error)
    return refused, list(compose(device).backends)


def _fate(backend: Backend, device: str) -> str:
    """What is known to become of a backend that is tried all the same; empty: it runs."""
    if device != "cpu" or (backend.stack or stacks.own()) != "ort":
        return ""
    if backend.sharding == "fsdp2":
        return "of the pinned torch needs CUDA and ends as unsupported; choose pytorch_fsdp2@modern."
    if backend.engine == "compile":
        return "of the pinned torch ends as diverged with some models; choose compile@modern."
    return ""


# --- telling --------------------------------------------------------------------------------------

COLOURS = {"ok": "32", "poor": "33", "broken": "31"}
"""Of ANSI terminals: green, yellow, red."""


def told(found: Sequence[Finding], *, width: int, coloured: bool) -> str:
    """The findings as a table of at most so many columns; a remedy stands below what it mends."""
    indent = max(len(one.what) for one in found) + 10
    lines = []
    for one in found:
        state = f"\x1b[{COLOURS[one.state]}m{one.state:6}\x1b[0m" if coloured else f"{one.state:6}"
        head = f"{one.what:{indent - 10}}  {state}  "
        sentences = [one.detail, *([f"→ {one.remedy}"] if one.remedy else [])]
        text = [line for sentence in sentences for line in textwrap.wrap(sentence, max(20, width - indent))]
        lines += [head + text[0], *(" " * indent + line for line in text[1:])]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was found; 1 if something is broken that the stack needs."""
    parser = argparse.ArgumentParser(prog="bench.doctor", description="What would run on this machine?")
    parser.add_argument("--stack", choices=stacks.NAMES, default=stacks.own())
    stack = parser.parse_args(arguments).stack
    if sys.stderr.isatty():
        print("looking at cores, memory, GPUs and stacks …", end="\r", file=sys.stderr, flush=True)
    found = findings(examine(stack))
    print(f"\x1b[K{stack} stack at {ROOT}\n" if sys.stderr.isatty() else f"{stack} stack at {ROOT}\n")
    width = shutil.get_terminal_size().columns
    print(told(found, width=width, coloured=sys.stdout.isatty()))
    broken = sum(one.state == "broken" for one in found)
    poor = sum(one.state == "poor" for one in found)
    print(f"\n{broken} broken, {poor} poor" if broken or poor else "\nall is well")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
