"""Look at this machine: cores, memory, GPUs, stacks, and which backends would be refused.

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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bench.config.backend import Backend
from bench.config.choices import CONF
from bench.doctor.judge import NEVER_SET_UP, BackendSeen, MachineSeen, StackSeen
from bench.errors import UserError
from bench.machine import hardware
from bench.machine.identity import name_processor
from bench.machine.processor import describe_processor
from bench.machine.telemetry.cpu import core_time
from bench.measure.plan import preflight
from bench.setup import recipes, stacks
from bench.setup.checkout import ROOT
from bench.setup.choice import recorded_choice
from bench.setup.nvidia_smi import ListedGpu, list_gpus
from bench.setup.stage import pending
from bench.setup.surroundings import check_platform, find_lacking

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


def examine(stack: str) -> MachineSeen:
    """Look at this machine for a stack; takes as long as importing torch."""
    busy_cores = _busy_cores()  # before this keeps some busy itself
    gpus, driver_problem = _gpus()
    with ThreadPoolExecutor() as pool:
        look = pool.map(_stack, stacks.NAMES)
        backends, default = _backends(driver=driver_problem is None) if stack == stacks.own() else ({}, [])
        seen = list(look)
    return MachineSeen(
        chosen=stack,
        cpu=name_processor({"cpu": describe_processor()}),
        cores=hardware.available_cores(),
        busy_cores=busy_cores,
        memory_free_gib=_available_gib(Path("/proc/meminfo").read_text(encoding="ascii")),
        disk_free_gib=shutil.disk_usage(ROOT).free / 2**30,
        lacking=find_lacking(),
        gpus=gpus,
        driver_problem=driver_problem,
        stacks=seen,
        backends=backends,
        default_backends=default,
    )


def _available_gib(meminfo: str) -> float:
    available = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(available[1]) / 2**20 if available else 0.0


def _busy_cores() -> float:
    """Return how many of this process's cores anybody keeps busy, over half a second; NaN if none counts."""
    cores = os.sched_getaffinity(0)
    before, start = core_time(cores), time.monotonic()
    time.sleep(0.5)
    now, seconds = core_time(cores), time.monotonic() - start
    return (now.busy - before.busy) / seconds if now and before else math.nan


def _gpus() -> tuple[list[ListedGpu], UserError | None]:
    """The GPUs of this machine, or why the driver does not show them."""
    try:
        return list_gpus(), None
    except UserError as error:
        return [], error


def _stack(name: str) -> StackSeen:
    known = recipes.STACKS[name]
    env = ROOT / known.folder
    here = stacks.installed(name)
    choice = recorded_choice(env)
    has_torch = here is not None and "torch" in here.packages
    wrong = stacks.find_other_versions(name, here.packages) if here and has_torch else []
    if choice is not None:
        stages = known.stages(ROOT, env, choice)
        if undone := [stage.name for stage in pending(stages, env)]:
            return StackSeen(name=name, pending=undone, wrong=wrong)
    elif not has_torch:  # an image may bring an environment of its own
        try:
            check_platform(known)
        except UserError as error:
            return StackSeen(name=name, pending=NEVER_SET_UP, unsuitable=error)
        return StackSeen(name=name, pending=NEVER_SET_UP)
    if here is None or (choice is None and not has_torch):
        return StackSeen(name=name, pending=NEVER_SET_UP)
    torch, import_error = ask_torch(here.interpreter)
    return StackSeen(
        name=name,
        wrong=wrong,
        torch=torch,
        import_error=import_error,
        device=choice.device if choice else "",
    )


def ask_torch(interpreter: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return what an interpreter's torch says of itself, or None and the last line of its import's errors."""
    done = subprocess.run(
        [interpreter, "-c", ASK_TORCH],
        env={**os.environ, **dict([recipes.NO_CUDA_IN_DEEPSPEED])},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return json.loads(done.stdout.splitlines()[-1]), ""


def _backends(*, driver: bool) -> tuple[dict[str, BackendSeen], list[str]]:
    """Return why a comparison of each backend alone would be refused, and the default backends."""
    try:
        from omegaconf import OmegaConf

        from bench.config.compose import compose
        from bench.config.refusals import as_user_errors
    except ImportError:  # without Hydra there is no stack, which is said elsewhere
        return {}, []
    device = [] if driver else ["device=cpu"]  # with a driver that does not answer, only the CPU is left
    default = compose(device)
    seen: dict[str, BackendSeen] = {}
    for path in sorted((CONF / "backend").glob("*.yaml")):
        if "engine:" not in path.read_text("utf-8"):  # a list of backends
            continue
        try:
            with as_user_errors():
                backend = cast(Backend, OmegaConf.to_object(OmegaConf.merge(Backend, OmegaConf.load(path))))
            # `Config` checks its backends whenever it is made. Composing each one would take ten seconds.
            config = replace(default, backends={path.stem: backend}, reference=path.stem)
            preflight.check_packages(config)
            seen[path.stem] = BackendSeen(stack=backend.stack or stacks.own())
        except UserError as error:
            seen[path.stem] = BackendSeen(error)
    return seen, list(default.backends)
