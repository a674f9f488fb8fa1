"""Look at this machine: cores, memory, GPUs, stacks, and which backends would be refused.

Reads /proc itself, where psutil would do it: nothing may be installed yet. Imports no torch, but asks each
stack's own interpreter what its torch sees, or without a GPU whether its libraries load.
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
from functools import partial
from pathlib import Path
from typing import Any, cast

from bench.config.backend import Backend
from bench.config.choices import CONF
from bench.errors import UserError
from bench.machine import hardware
from bench.machine.gpus import visible_gpus
from bench.machine.identity import name_processor
from bench.machine.processor import describe_processor
from bench.machine.telemetry.cpu import core_time
from bench.measure.plan import preflight
from bench.plugins.doctor.judge import NEVER_SET_UP, BackendSeen, MachineSeen, StackSeen
from bench.setup import recipes, stacks
from bench.setup.checkout import ROOT
from bench.setup.choice import recorded_choice
from bench.setup.interpreter import look_for_python
from bench.setup.nvidia_smi import ListedGpu, list_gpus, version
from bench.setup.stage import pending
from bench.setup.surroundings import check_platform, describe_lacking, find_lacking

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
    answer["capability"] = list(torch.cuda.get_device_capability())
    answer["kernels"] = torch.cuda.get_arch_list()
    try:
        import ctypes, onnxruntime.training
        for library in ("libcudart.so.11.0", "libcublas.so.11", "libcufft.so.10", "libcudnn.so.8"):
            ctypes.CDLL(library)
    except OSError as error:
        answer["missing_libraries"] = [str(error).split(":")[0]]
    except ImportError: # no ONNX Runtime Training here
        pass
print(json.dumps(answer))
"""

LOAD_TORCH = """
import ctypes, importlib.util, json, runpy, sys
folder = importlib.util.find_spec("torch").submodule_search_locations[0]
try:
    ctypes.CDLL(folder + "/lib/libtorch_python.so", ctypes.RTLD_GLOBAL)
except OSError:
    import torch # looks for libraries in more places, and says what is wrong
version = runpy.run_path(folder + "/version.py")["__version__"]
print(json.dumps({"python": sys.version.split()[0], "torch": version}))
"""
"""What answers for torch where no GPU is: a quarter of the time of importing it."""


def examine(stack: str) -> MachineSeen:
    """Look at this machine for a stack; takes a second, or on a GPU those that importing torch takes."""
    busy_cores = _busy_cores()  # before this keeps some busy itself
    gpus, driver_problem = _gpus()
    with ThreadPoolExecutor() as pool:
        look = pool.map(partial(_stack, has_gpus=bool(gpus)), stacks.NAMES)
        backends, default = _backends(driver=driver_problem is None) if stack == stacks.own() else ({}, [])
        seen = list(look)
    meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    available = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    lacking = find_lacking(brings_python=any(each.brings_python for each in seen if each.name == stack))
    return MachineSeen(
        chosen=stack,
        cpu=name_processor({"cpu": describe_processor()}),
        cores=hardware.available_cores(),
        busy_cores=busy_cores,
        memory_free_gib=int(available[1]) / 2**20 if available else 0.0,
        disk_free_gib=shutil.disk_usage(ROOT).free / 2**30,
        lacking=lacking,
        how_to_install=f"{describe_lacking(lacking).remedy}.",
        gpus=gpus,
        driver_problem=driver_problem,
        stacks=seen,
        backends=backends,
        default_backends=default,
    )


def _busy_cores() -> float:
    """Return how many of this process's cores anybody keeps busy, over half a second; NaN if none counts."""
    cores = os.sched_getaffinity(0)
    before, start = core_time(cores), time.monotonic()
    time.sleep(0.5)
    now, seconds = core_time(cores), time.monotonic() - start
    return (now.busy - before.busy) / seconds if now and before else math.nan


def _gpus() -> tuple[list[ListedGpu], UserError | None]:
    """The GPUs that this process may use; before the first set-up all GPUs, without their processes."""
    try:
        try:
            import pynvml
        except ImportError:
            return list_gpus(), None
        visible = visible_gpus()
    except UserError as error:
        return [], error
    if not visible:
        return [], None
    pynvml.nvmlInit()
    try:
        gpus = []
        for gpu in visible:
            handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            try:
                processes = len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
            except pynvml.NVMLError:
                processes = 0
            mib = (memory.total // 2**20, memory.free // 2**20)
            gpus.append(ListedGpu(gpu.name, gpu.driver, *mib, processes=processes))
        return gpus, None
    finally:
        pynvml.nvmlShutdown()


def _stack(name: str, *, has_gpus: bool) -> StackSeen:
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
    elif not has_torch:  # an image may bring its own environment
        try:
            check_platform(known)
        except UserError as error:
            return StackSeen(name=name, pending=NEVER_SET_UP, unsuitable=error)
        versions = known.pythons["cuda" if has_gpus else "cpu"]
        brings = "" if look_for_python(versions) else max(versions, key=version)
        return StackSeen(name=name, pending=NEVER_SET_UP, brings_python=brings)
    if here is None or (choice is None and not has_torch):
        return StackSeen(name=name, pending=NEVER_SET_UP)
    torch, import_error = ask_torch(here.interpreter, ASK_TORCH if has_gpus else LOAD_TORCH)
    return StackSeen(
        name=name, wrong=wrong, torch=torch, import_error=import_error, device=choice.device if choice else ""
    )


def ask_torch(interpreter: str, program: str = ASK_TORCH) -> tuple[Mapping[str, Any] | None, str]:
    """Return what an interpreter's torch says of itself, or None and the last line of its import's errors."""
    done = subprocess.run(
        [interpreter, "-c", program],
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
            failure = _known_failure(backend, config.device.type)
            seen[path.stem] = BackendSeen(failure, backend.stack or stacks.own())
        except UserError as error:
            seen[path.stem] = BackendSeen(error)
    return seen, list(default.backends)


def _known_failure(backend: Backend, device: str) -> UserError | None:
    if device != "cpu" or (backend.stack or stacks.own()) != "ort":
        return None
    if backend.sharding == "fsdp2":
        return UserError(
            "of the pinned torch needs CUDA and ends as unsupported", "choose pytorch_fsdp2@modern"
        )
    if backend.engine == "compile":
        return UserError("of the pinned torch ends as diverged with some models", "choose compile@modern")
    return None
