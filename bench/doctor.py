"""What would run on this machine, what would not, and how to mend it: `make doctor`.

`examine` looks, `findings` judges: the judgement is a pure function of what was seen, so that machines which
are not at hand can be judged, too. Imports no torch; asks each stack's own interpreter what its torch sees.
"""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import bootstrap, machine, stacks
from bench.compose import compose
from bench.errors import UserError
from bench.launch.environment import ROOT
from bench.refusals import CONF
from bench.telemetry.gpus import visible_gpus

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
        trouble: the last line of what importing torch printed then.
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
    backends: Mapping[str, str] = field(
        default_factory=dict
    )  # why each would be refused; empty: it would run
    default_backends: Sequence[str] = ()


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
        *(
            Finding(
                what=f"backend {name}",
                state=("broken" if name in seen.default_backends else "poor") if reason else "ok",
                detail=reason.partition("; ")[0] or "would run",
                remedy=reason.partition("; ")[2],
            )
            for name, reason in seen.backends.items()
        ),
    ]


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
    if stack.pending:
        return [
            Finding(
                what=what,
                state="broken" if stack.name == stacks.NAMES[0] else "poor",
                detail=f"not set up: {', '.join(stack.pending)} to be done",
                remedy=f"run `{make}`",
            )
        ]
    if stack.torch is None:
        return [
            Finding(
                what=what,
                state="broken",
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


def examine() -> Seen:
    """Look at this machine; takes some seconds, most of them to import torch in each stack."""
    cards, trouble = _cards()
    return Seen(
        cores=machine.available_cores(),
        busy_cores=_busy_cores(),
        memory_free_gib=os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        if not Path("/proc/meminfo").exists()
        else _available_gib(Path("/proc/meminfo").read_text(encoding="ascii")),
        disk_free_gib=shutil.disk_usage(ROOT).free / 2**30,
        tools={tool: shutil.which(tool) is not None for tool in ("g++", "make", "git")},
        cards=cards,
        driver_trouble=trouble,
        libraries={name: _loads(name) for name in ORT_LIBRARIES} if cards else {},
        stacks=[_stack(name) for name in stacks.NAMES],
        backends={path.stem: _refusal(path.stem) for path in _backends()},
        default_backends=list(compose([]).backends),
    )


def _available_gib(meminfo: str) -> float:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) / 2**20 if found else 0.0


def _busy_cores() -> float:
    """Cores' worth of work that others do, over half a second."""
    import psutil

    return float(psutil.cpu_percent(interval=0.5) / 100 * (psutil.cpu_count() or 1))


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
    if name == stacks.own():  # wherever it came from: an image brings its own environment
        assert here is not None
    else:
        choice = bootstrap.recorded_choice(env, known, None)
        if choice is None or here is None:
            return StackSeen(name=name, pending=["everything"])
        stages = known.stages(ROOT, env, choice)
        if undone := [stage.name for stage, _ in bootstrap.pending(stages, env)]:
            return StackSeen(name=name, pending=undone)
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


def _backends() -> list[Path]:
    return sorted(path for path in (CONF / "backend").glob("*.yaml") if "engine:" in path.read_text("utf-8"))


def _refusal(name: str) -> str:
    """Why a comparison of this backend alone would be refused on this machine; empty if it would not."""
    try:
        machine.check_packages(compose([f"backend=[{name}]", f"reference={name}"]))
    except UserError as error:
        return str(error)
    return ""


COLOURS = {"ok": "green", "poor": "yellow", "broken": "red"}


def main() -> int:
    """Print what was found; 1 if something is broken."""
    console = Console(stderr=True)
    with console.status("looking at cores, memory, GPUs and stacks …"):
        found = findings(examine())
    table = Table(title=f"stack {stacks.own()} at {sys.prefix}", box=None, padding=(0, 2, 0, 0))
    for heading in ("what", "state", "found", "remedy"):
        table.add_column(heading, overflow="fold")
    for one in found:
        table.add_row(one.what, f"[{COLOURS[one.state]}]{one.state}[/]", one.detail, one.remedy)
    Console().print(table)
    return int(any(one.state == "broken" for one in found))


if __name__ == "__main__":
    sys.exit(main())
