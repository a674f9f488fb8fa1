"""What the figures were measured with: hardware, driver, versions, the harness's own code."""

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.config import Config
from bench.launch.environment import ROOT, scrubbed, worker_environment
from bench.telemetry.gpus import visible_gpus

CODE = ("bench", "conf", "requirements", "pyproject.toml")
"""What decides how a comparison is measured; results/, reports/, tests and the README do not."""

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

PASSED_ON = ("CUDA_", "NCCL_", "GLOO_", "NVIDIA_", "LD_", "HF_", "TRANSFORMERS_", "SAFETENSORS_", "PYTHON")
"""Beginnings of variables that workers inherit and that may change what is measured."""


def collect(config: Config) -> dict[str, Any]:
    """The environment as plain JSON. Nothing in it depends on time, load or where the checkout lies."""
    packages = {name: version for name in PACKAGES if (version := _version(name))}
    gpus = visible_gpus()
    return {
        "stack": "ort" if any("onnxruntime" in name for name in packages) else "modern",
        "python": platform.python_version(),
        "packages": packages,
        "cpu": {"model": _cpu_model(), "cores": len(os.sched_getaffinity(0))},
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "gpus": [{"name": gpu.name, "memory_gib": round(gpu.memory_total_bytes / 2**30, 1)} for gpu in gpus],
        "driver": gpus[0].driver if gpus else None,
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "code": code_hash(),
        "variables": variables(os.environ, config),
        "removed_variables": scrubbed(os.environ),
    }


def variables(base: Mapping[str, str], config: Config) -> dict[str, str]:
    """The workers' environment variables that matter; a path only as a hash, since it tells who measured."""
    device = config.device
    workers = worker_environment(
        base,
        device=device.type,
        threads=device.threads,
        allocator=device.allocator,
        precision=config.precision.name,
    )
    return {
        name: f"sha256:{digest(value)}" if "/" in value else value
        for name, value in sorted(workers.items())
        if name not in OWN_PATHS and (base.get(name) != value or name.startswith(PASSED_ON))
    }


def differences(one: Any, other: Any) -> list[str]:
    """What differs between two environments, a line each: `packages.torch: 2.6.0, now 2.7.0`."""
    old, now = _flat(one), _flat(other)
    return [
        f"{key}: {old.get(key, 'missing')}, now {now.get(key, 'missing')}"
        for key in sorted(old.keys() | now.keys())
        if old.get(key) != now.get(key)
    ]


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
    """The checkout's commit, with `-dirty` if the harness's code differs from it; `unknown` without git."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit}-dirty" if _git("status", "--porcelain", "-uno", "--", *CODE) else commit


def code_hash() -> str:
    """A hash of the harness's own files: git's, or without git every source file."""
    listed = _git("ls-files", "--", *CODE)
    paths = [ROOT / line for line in listed.splitlines()] if listed else _sources()
    hashed = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        hashed.update(f"{path.relative_to(ROOT)}\0".encode())
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()[:16]


def _sources() -> Iterable[Path]:
    for name in CODE:
        path = ROOT / name
        yield from (
            (found for found in path.rglob("*") if found.suffix in (".py", ".yaml", ".txt"))
            if path.is_dir()
            else (path,)
        )


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


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
