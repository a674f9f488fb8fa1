"""Look at this machine and judge it: cores, memory, GPUs, stacks, and which backends would be refused.

Reads /proc itself, where psutil would do it: nothing may be installed yet. Imports no torch, but asks each
stack's own interpreter what its torch sees.
"""

import json
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from bench.config.backend import Backend
from bench.config.choices import CONF
from bench.errors import UserError
from bench.machine import hardware
from bench.machine.identity import name_processor
from bench.machine.processor import describe_processor
from bench.machine.telemetry.cpu import core_time
from bench.measure.plan import preflight
from bench.setup import stacks
from bench.setup.checkout import ROOT
from bench.setup.choice import recorded_choice
from bench.setup.nvidia_smi import ListedGpu, list_gpus
from bench.setup.recipes import NO_CUDA_IN_DEEPSPEED, STACKS
from bench.setup.stage import pending
from bench.setup.surroundings import COMPILER, INSTALL, VENV, check_platform, find_lacking, find_old_driver

OK, POOR, BROKEN = "ok", "poor", "broken"  # poor: it runs, with a drawback

LEAST_FREE_GIB = 2  # memory that two ranks of the smallest model need under three backends
BUSY = 0.1  # cores that other work may take before it disturbs blocks, whose limit is 5 % of a rank's core
SECONDS = 120  # the longest that importing torch may take; from a cold disk it takes half of this

ASK_TORCH = """
import json, sys
answer = {"python": sys.version.split()[0]}
import torch
answer["torch"] = torch.__version__
answer["cuda_build"] = torch.version.cuda
answer["cuda"] = torch.cuda.is_available()
if answer["cuda"]:
    answer["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    answer["cudnn"] = torch.backends.cudnn.version()
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Diagnosis:
    """One judgement."""

    part: str
    detail: str
    state: str = OK
    remedy: str = ""


def examine(chosen: str) -> list[Diagnosis]:
    """Say what of this machine is well, and what is not, with its remedy; `chosen` is a stack.

    Without that stack nothing runs; of another one a fault is only a drawback.
    """
    busy = look_for_other_work()  # before this keeps some cores busy itself
    gpus, of_gpus = look_at_gpus()
    with ThreadPoolExecutor() as pool:
        look = pool.map(partial(look_at_stack, gpus=gpus), stacks.NAMES)
        of_stacks = dict(zip(stacks.NAMES, look, strict=True))
    broken = [name for name, found in of_stacks.items() if BROKEN in {each.state for each in found}]
    for name in broken:
        if name != chosen:
            of_stacks[name] = [
                replace(each, state=POOR) if each.state == BROKEN else each for each in of_stacks[name]
            ]
    driver_answers = BROKEN not in {each.state for each in of_gpus}
    return [
        Diagnosis("CPU", name_processor({"cpu": describe_processor()})),
        busy,
        *look_at_resources(STACKS[chosen].disk_gib["cuda" if gpus else "cpu"]),
        *of_gpus,
        *(each for found in of_stacks.values() for each in found),
        *(look_at_backends(broken, driver=driver_answers) if chosen == stacks.own() else ()),
    ]


def either(part: str, detail: str, fault: str, remedy: str) -> Diagnosis:
    """Without a fault (`poor`, `broken` or empty) nothing is to be done."""
    return Diagnosis(part, detail, fault, remedy) if fault else Diagnosis(part, detail)


def refused(part: str, state: str, refusal: UserError) -> Diagnosis:
    """What an error says, as a diagnosis."""
    return Diagnosis(part, refusal.reason, state, f"{refusal.remedy}." if refusal.remedy else "")


def look_for_other_work() -> Diagnosis:
    """How many of this process's cores anybody keeps busy, over half a second."""
    cores = os.sched_getaffinity(0)
    before, start = core_time(cores), time.monotonic()
    time.sleep(0.5)
    now, seconds = core_time(cores), time.monotonic() - start
    busy = (now.busy - before.busy) / seconds if now and before else math.nan
    return either(
        "other work",
        "not known" if math.isnan(busy) else f"takes {busy:.1f} cores",
        POOR * (busy > BUSY),
        "end it, or blocks will be measured again and found invalid",
    )


def look_at_resources(needed_gib: int) -> list[Diagnosis]:
    """Cores, memory, disk, of which a set-up needs so much, and programs."""
    cores, disk = hardware.available_cores(), shutil.disk_usage(ROOT).free / 2**30
    available = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    memory = int(available[1]) / 2**20 if available else 0.0
    lacking = find_lacking()
    return [
        either(
            "cores",
            f"{cores}" + ", one rank only: no sharding" * (cores < 2),
            POOR * (cores < 2),
            "allow this process more, in its container or with taskset",
        ),
        either(
            "memory",
            f"{memory:.1f} GiB free",
            POOR * (memory < LEAST_FREE_GIB),
            "end other processes, or set measure.resident=one",
        ),
        either(
            "disk", f"{disk:.0f} GiB free", POOR * (disk < needed_gib), f"a set-up needs {needed_gib} GiB"
        ),
        either(
            "programs",
            f"missing: {', '.join(lacking)}" if lacking else "none is missing",
            (BROKEN if {COMPILER, VENV} & set(lacking) else POOR) if lacking else "",
            f"{INSTALL}.",
        ),
    ]


def look_at_gpus() -> tuple[list[ListedGpu], list[Diagnosis]]:
    """The GPUs of this machine, and what is said of them and of their driver."""
    try:
        gpus = list_gpus()
    except UserError as error:
        return [], [refused("NVIDIA driver", BROKEN, error)]
    if not gpus:
        return [], [Diagnosis("GPUs", "none visible: comparisons run on the CPU")]
    rooms = [
        f"{gpu.name}, {gpu.free_mib / 2**10:.0f} of {gpu.total_mib / 2**10:.0f} GiB free" for gpu in gpus
    ]
    of_each = [Diagnosis(f"GPU {number}", room) for number, room in enumerate(rooms)]
    return gpus, [Diagnosis("NVIDIA driver", gpus[0].driver), *of_each]


def look_at_stack(name: str, gpus: Sequence[ListedGpu]) -> list[Diagnosis]:
    """Whether a stack's environment is there, whole, and of the pinned versions, and can be imported."""
    known, part = STACKS[name], f"stack {name}"
    env, here = ROOT / known.folder, stacks.installed(name)
    choice = recorded_choice(env)
    old = find_old_driver(known, gpus[0].driver) if gpus else None
    if old and (choice is None or choice.device != "cpu"):
        return [refused(part, BROKEN, old)]
    if choice is None and (here is None or "torch" not in here.packages):
        try:
            check_platform(known)
        except UserError as error:
            return [refused(part, BROKEN, error)]
        return [Diagnosis(part, "not set up yet", POOR, f"run `{known.make}`, or what needs it will")]
    anew = f"run `make clean` and `{known.make}`"
    wrong = stacks.find_other_versions(name, here.packages) if here else []
    detail = f"not the pinned ones: {', '.join(wrong)}"
    versions = (
        [Diagnosis(f"{part}: versions", detail, POOR, f"{anew}, or say so when you publish")] if wrong else []
    )
    undone = [stage.name for stage in pending(known.stages(ROOT, env, choice), env)] if choice else []
    if undone or here is None:
        detail = f"not set up: {', '.join(undone) or 'its Python does not start'}"
        return [Diagnosis(part, detail, BROKEN, f"run `{known.make}`"), *versions]
    torch, import_error = ask_torch(here.interpreter)
    if torch is None:
        return [Diagnosis(part, f"torch: {import_error}", BROKEN, anew), *versions]
    found = [Diagnosis(part, f"Python {torch['python']}, torch {torch['torch']}"), *versions]
    if gpus:
        for_a_cpu = name == "ort" and choice is not None and choice.device == "cpu"
        found.append(judge_cuda(f"{part}: CUDA", known.make, torch, for_a_cpu=for_a_cpu))
    return found


def judge_cuda(part: str, make: str, torch: Mapping[str, Any], *, for_a_cpu: bool) -> Diagnosis:
    """What a torch can do with the GPUs of this machine; `make` sets its stack up."""
    build = torch["cuda_build"]
    if for_a_cpu:
        remedy = f"run `{make} SETUP_ARGS='--device cuda'` to measure on the GPUs"
        return Diagnosis(part, "the packages are those for a CPU", POOR, remedy)
    if not torch["cuda"] and build is None:
        return Diagnosis(
            part, "this torch is a build for CPUs", BROKEN, "install a torch that is built for CUDA"
        )
    if not torch["cuda"]:
        remedy = f"install a driver for CUDA {build}, or look at LD_LIBRARY_PATH"
        return Diagnosis(part, f"its CUDA {build} finds no GPU", BROKEN, remedy)
    return Diagnosis(part, f"CUDA {build}, cuDNN {torch['cudnn']}, NCCL {torch['nccl']}")


def ask_torch(interpreter: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return what an interpreter's torch says of itself, or None and the last line of its import's errors."""
    done = subprocess.run(
        [interpreter, "-c", ASK_TORCH],
        env={**os.environ, **dict([NO_CUDA_IN_DEEPSPEED])},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return json.loads(done.stdout.splitlines()[-1]), ""


def look_at_backends(broken_stacks: Collection[str], *, driver: bool) -> list[Diagnosis]:
    """One diagnosis for the backends that would run, and one for every reason why some would not.

    With a driver that does not answer, only the CPU is left.
    """
    try:
        from omegaconf import OmegaConf

        from bench.config.compose import compose
        from bench.config.refusals import as_user_errors
    except ImportError:  # without Hydra there is no stack, which is said elsewhere
        return []
    default = compose([] if driver else ["device=cpu"])
    runs: list[str] = []
    by_refusal: dict[tuple[str, str], list[str]] = {}
    for path in sorted((CONF / "backend").glob("*.yaml")):
        if "engine:" not in path.read_text("utf-8"):  # a list of backends
            continue
        name = path.stem
        try:
            with as_user_errors():
                backend = cast(Backend, OmegaConf.to_object(OmegaConf.merge(Backend, OmegaConf.load(path))))
            # `Config` checks its backends whenever it is made. Composing each one would take ten seconds.
            preflight.check_packages(replace(default, backends={name: backend}, reference=name))
            stack = backend.stack or stacks.own()
            if stack in broken_stacks:
                raise UserError(f"the {stack} stack is broken", "repair it as said above")
            runs.append(name)
        except UserError as error:  # the same for several, apart from their names
            reason = error.reason.removeprefix(f"backends.{name} ")
            by_refusal.setdefault((reason, error.remedy), []).append(name)
    found = [Diagnosis("backends", f"would run: {', '.join(runs)}")] if runs else []
    for (reason, remedy), names in by_refusal.items():
        state = POOR if set(names).isdisjoint(default.backends) else BROKEN
        found.append(refused("backends", state, UserError(f"{', '.join(names)}: {reason}", remedy)))
    return found
