"""What the figures were measured with: hardware, driver, versions, the harness's own code."""

import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.machine.facts import memory_bytes
from bench.machine.telemetry.gpus import visible_gpus
from bench.machine.variables import scrubbed, worker_environment
from bench.setup import stacks
from bench.setup.stacks import ROOT

CODE = ("bench", "conf", "requirements", "pyproject.toml")
"""What decides how a comparison is measured; results/, reports/, tests and the README do not."""

SOURCES = (".py", ".yaml", ".txt", ".toml")
"""Endings of the files that are hashed."""

NOT_HASHED = (
    *("conf/", "pyproject.toml"),  # the resolved configuration and the packages have hashes of their own
    *("bench/compare/", "bench/doctor/", "bench/report/", "bench/selfcheck/"),  # only read rows
    *("bench/analysis/attribution.py", "bench/analysis/reference/", "bench/analysis/steadiness.py"),
)
"""Beginnings of files of `CODE` that cannot change a measurement unnoticed."""

PACKAGES = (
    "torch",
    "transformers",
    "onnxruntime-training",
    "onnxruntime-training-cpu",
    "onnx",
    "deepspeed",
    "numpy",
    "safetensors",
)

OWN_PATHS = ("PATH", "PYTHONPATH", "TORCH_EXTENSIONS_DIR")
"""Set by the harness to places inside its checkout."""

PASSED_ON = (
    "CUDA_",
    "NCCL_",
    "GLOO_",
    "NVIDIA_",
    "LD_",
    "TRANSFORMERS_",
    "TRITON_",
    "SAFETENSORS_",
    "PYTHON",
)
"""Beginnings of variables that workers inherit and that may change what is measured."""

SECRET = re.compile("TOKEN|KEY|SECRET|PASS|CREDENTIAL", re.IGNORECASE)
"""In the name of a variable that must never be recorded."""

OF_A_STACK = ("stack", "python", "packages")
"""Entries in which backends of one comparison may differ, if they are of different stacks."""

WITHOUT_EFFECT = ("removed_variables",)
"""Entries of the environment that are recorded but change nothing."""


def described(settings: dict[str, Any], stack: str | None = None) -> dict[str, Any]:
    """`collect` on a node that knows the comparison's settings only."""
    here = stacks.installed(stack)
    assert here is not None, "bench.measure.preflight.check_packages refuses a stack that is not there"
    gpus = visible_gpus()
    return {
        "stack": stack or stacks.own(),
        "python": here.python,
        "packages": {name: here.packages[name] for name in PACKAGES if name in here.packages}
        | _cuda_libraries(here.packages),
        "cpu": {"model": _cpu_model(), "cores": len(os.sched_getaffinity(0))},
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "gpus": [{"name": gpu.name, "memory_gib": round(gpu.memory_total_bytes / 2**30, 1)} for gpu in gpus],
        "driver": gpus[0].driver if gpus else None,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "code": code_hash(),
        "variables": variables(os.environ, settings),
        "removed_variables": scrubbed(os.environ),
    }


def variables(base: Mapping[str, str], settings: dict[str, Any]) -> dict[str, str]:
    """The workers' environment variables that matter; a path only as a hash, since it tells who measured."""
    ours = worker_environment({}, **settings)
    return {
        name: f"sha256:{digest(value)}" if "/" in value else value
        for name, value in sorted(worker_environment(base, **settings).items())
        if (name in ours or name.startswith(PASSED_ON)) and name not in OWN_PATHS and not SECRET.search(name)
    }


def differences(one: Any, other: Any, *, other_is: str = "now") -> list[str]:
    """What differs between two environments, a line each: `packages.torch: 2.6.0, now 2.7.0`."""
    old, now = _flat(_with_effect(one)), _flat(_with_effect(other))
    return [
        f"{key}: {old.get(key, 'missing')}, {other_is} {now.get(key, 'missing')}"
        for key in sorted(old.keys() | now.keys())
        if old.get(key) != now.get(key)
    ]


def fingerprint(environment: dict[str, Any]) -> str:
    """The hash by which rows are told to have been measured in the same environment."""
    return digest(_with_effect(environment))


def _with_effect(environment: Any) -> Any:
    if not isinstance(environment, dict):
        return environment
    return {key: value for key, value in environment.items() if key not in WITHOUT_EFFECT}


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested entries under dotted keys."""
    if isinstance(tree, dict):
        children = tree.items()
    elif isinstance(tree, list):
        children = enumerate(tree)  # type: ignore[assignment]
    else:
        return {prefix: tree}
    found: dict[str, Any] = {}
    for key, child in children:
        found |= _flat(child, f"{prefix}.{key}" if prefix else str(key))
    return found


def digest(thing: Any) -> str:
    """A short hash of plain JSON, the same for equal content."""
    text = json.dumps(thing, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def git_commit() -> str:
    """The checkout's commit, with `-dirty` if the harness's code differs from it; `unknown` without git.

    A file of the harness that git does not know of, such as somebody's own engine, is a difference, too.
    """
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit}-dirty" if _git("status", "--porcelain", "-unormal", "--", *CODE) else commit


def code_hash() -> str:
    """A hash of the harness's own source files, whether git knows of them or not."""
    hashed = hashlib.sha256()
    for path in sorted(_sources()):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(NOT_HASHED):
            continue
        hashed.update(f"{name}\0".encode())
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()[:16]


def _sources() -> Iterable[Path]:
    for name in CODE:
        found = (ROOT / name).rglob("*") if (ROOT / name).is_dir() else (ROOT / name,)
        yield from (path for path in found if path.suffix in SOURCES and path.is_file())


def _cuda_libraries(packages: Mapping[str, str]) -> dict[str, str]:
    """The wheels with CUDA's libraries, which torch brings along: cuBLAS, cuDNN, NCCL …"""
    return {name: packages[name] for name in sorted(packages) if name.startswith("nvidia-")}


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
