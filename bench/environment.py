"""What the figures were measured with: hardware, driver, versions, the harness's own code."""

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.launch.environment import ROOT, scrubbed
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


def collect() -> dict[str, Any]:
    """The environment as plain JSON. Nothing in it depends on time or load."""
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
        "preload": os.environ.get("LD_PRELOAD"),
        "removed_variables": scrubbed(os.environ),
    }


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
