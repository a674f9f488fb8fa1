"""Takes, compares and hashes environments, plain JSON: versions, hardware, variables, the code's hash."""

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.errors import UserError
from bench.machine.gpus import visible_gpus
from bench.machine.hardware import memory_bytes
from bench.machine.processor import describe_processor, read_text
from bench.machine.source_code import code_hash
from bench.machine.variables import removed_variables, worker_variables
from bench.setup import stacks
from bench.setup.recipes import MKL_LIBRARY

OF_A_STACK = ("stack", "python", "packages")
"""Entries in which backends of one comparison may differ, if they are of different stacks."""

UNRECORDED = (
    *("PATH", "PYTHONPATH", "TORCH_EXTENSIONS_DIR", "CUDA_HOME", "CUDA_CACHE_PATH"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
)
"""Paths inside the checkout, and which of a machine's GPUs are used: their kind and number are recorded."""

PASSED_ON = (
    *("CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "LD_", "PYTHON"),
    *("TRANSFORMERS_", "TRITON_", "SAFETENSORS_"),
)
"""Beginnings of variables that workers inherit and that may change what is measured."""

SECRET = re.compile("TOKEN|KEY|SECRET|PASS|CREDENTIAL", re.IGNORECASE)
"""What the name of a variable contains that must never be recorded."""


KERNEL_SETTINGS = {
    "transparent_hugepage": "sys/kernel/mm/transparent_hugepage/enabled",
    "transparent_hugepage_defrag": "sys/kernel/mm/transparent_hugepage/defrag",
    "same_page_merging": "sys/kernel/mm/ksm/run",
    "page_reclaim_by_access": "sys/module/damon_reclaim/parameters/enabled",
    "numa_balancing": "proc/sys/kernel/numa_balancing",
    "clocksource": "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "governor": "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "boost": "sys/devices/system/cpu/cpufreq/boost",
    "no_turbo": "sys/devices/system/cpu/intel_pstate/no_turbo",
    "smt": "sys/devices/system/cpu/smt/control",
    "spectre_v2": "sys/devices/system/cpu/vulnerabilities/spectre_v2",
}
"""The file of each setting of the kernel that may move speed or memory, and that every user may read."""


def take(settings: dict[str, Any], stack: str | None = None) -> dict[str, Any]:
    """The environment of workers on this machine; nothing depends on time, load or where the checkout lies.

    `settings` are keyword arguments of `worker_variables`; the stack None is this process's own.
    """
    installed = stacks.installed(stack)
    assert installed is not None, (
        "bench.measure.plan.preflight.check_packages refuses a stack that is not there"
    )
    try:
        gpus = visible_gpus()
    except UserError:  # a driver or a GPU that does not answer; a run on the CPU does not need it
        if settings["device"] != "cpu":
            raise
        gpus = []
    return {
        "stack": stack or stacks.own(),
        "python": installed.python,
        "packages": {
            name: version
            for name, version in installed.packages.items()
            if name in stacks.RECORDED
            or name.startswith("nvidia-")  # CUDA's libraries, which torch brings along
        },
        "cpu": describe_processor(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "gpus": [{"name": gpu.name, "memory_gib": round(gpu.memory_total_bytes / 2**30, 1)} for gpu in gpus],
        "driver": gpus[0].driver if gpus else None,
        "kernel": platform.release(),
        "kernel_settings": read_kernel_settings(),
        "libc": " ".join(platform.libc_ver()),
        "code": code_hash(),
        "variables": recorded_variables(os.environ, settings),
        "removed_variables": removed_variables(os.environ),
    }


def read_kernel_settings(root: Path = Path("/")) -> dict[str, str]:
    """The text of each file, or the word chosen by brackets in it; files that are missing are left out."""
    texts = {name: read_text(root / place) for name, place in KERNEL_SETTINGS.items()}
    return {name: re.sub(r".*\[(\w+)\].*", r"\1", text) for name, text in texts.items() if text is not None}


def recorded_variables(base: Mapping[str, str], settings: dict[str, Any]) -> dict[str, str]:
    """Return the workers' variables that matter; a path as a hash, since it reveals who measured."""
    ours = worker_variables({}, **settings)
    recorded = {
        name: _without_paths(value)
        for name, value in sorted(worker_variables(base, **settings).items())
        if (name in ours or name.startswith(PASSED_ON)) and name not in UNRECORDED and not SECRET.search(name)
    }
    if settings["blas"] == "full":
        # Our own library by its name, which is the same in every checkout; the user's as everywhere.
        users = _without_paths(base.get("LD_PRELOAD", ""))
        recorded["LD_PRELOAD"] = " ".join(filter(None, (Path(MKL_LIBRARY).name, users)))
    return recorded


def _without_paths(value: str) -> str:
    return f"sha256:{digest(value)}" if "/" in value else value


def find_differences(
    environment: Mapping[str, Any], other: Mapping[str, Any], *, other_is: str = "now"
) -> list[str]:
    """Return what differs between two environments, a line each: `packages.torch: 2.6.0, now 2.7.0`."""
    old, now = flatten(_with_effect(environment)), flatten(_with_effect(other))
    return [
        f"{key}: {old.get(key, 'missing')}, {other_is} {now.get(key, 'missing')}"
        for key in sorted(old.keys() | now.keys())
        if old.get(key) != now.get(key)
    ]


def hash_environment(environment: dict[str, Any]) -> str:
    """A hash that is the same for environments without a difference that matters."""
    return digest(_with_effect(environment))


def _with_effect(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in environment.items() if key != "removed_variables"}


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested entries as one dictionary with dotted keys."""
    if isinstance(tree, list) and tree and all(isinstance(word, str) for word in tree):
        return {prefix: " ".join(tree)}  # one more word would shift all that follow
    if isinstance(tree, list):
        tree = dict(enumerate(tree))
    if not isinstance(tree, dict):
        return {prefix: tree}
    entries: dict[str, Any] = {}
    for key, child in tree.items():
        entries |= flatten(child, f"{prefix}.{key}" if prefix else str(key))
    return entries


def digest(thing: Any) -> str:
    """A short hash of plain JSON, the same for equal content."""
    text = json.dumps(thing, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
