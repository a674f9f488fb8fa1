"""What is installed: the environment of each stack (a set of versions that belong together), by its packages.

One comparison may hold backends of several stacks: each backend's ranks run on the interpreter of its stack,
the coordinator on the one it was started with. `python -m bench.setup.stacks` prints that stack as JSON.
"""

import dataclasses
import functools
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.setup.checkout import ROOT
from bench.setup.recipes import CUDA11, STACKS

NAMES = tuple(STACKS)  # the names of the stacks, the default first

ORT_TRAINING = ("onnxruntime-training", "onnxruntime-training-cpu")
"""ONNX Runtime Training's distributions, for GPUs and without."""

NEWEST_TORCH_FOR_ORT = (2, 6)  # ONNX Runtime Training's extensions do not load with a later one

RECORDED = ("torch", "transformers", *ORT_TRAINING, "onnx", "deepspeed", "numpy", "safetensors")
"""The packages whose versions every row names."""

REQUIREMENTS = {"ort": ("ort-cpu.txt", "ort-gpu.txt"), "modern": ("modern.txt",)}
"""The files in requirements/ that pin a stack's versions."""

SECONDS = 60
"""How long an interpreter may take to list its packages: a tenth of one, or far longer from a cold disk."""


@dataclass(frozen=True)
class Installed:
    """An environment as it is."""

    interpreter: str  # its Python
    prefix: Path  # its folder
    python: str  # the version of Python
    packages: Mapping[str, str]  # every distribution's version


def own() -> str:
    """Return this process's stack: `ort`, unless its torch is too new for ONNX Runtime Training."""
    packages = installed_here().packages
    is_modern = is_torch_too_new_for_ort(packages) and packages.keys().isdisjoint(ORT_TRAINING)
    return "modern" if is_modern else "ort"


def is_torch_too_new_for_ort(packages: Mapping[str, str]) -> bool:
    """Return whether ONNX Runtime Training cannot work with the torch among these packages."""
    torch = tuple(int(part) for part in packages.get("torch", "0").split(".")[:2])
    return torch > NEWEST_TORCH_FOR_ORT


def find_other_versions(stack: str, packages: Mapping[str, str]) -> list[str]:
    """Return the recorded packages of other versions than the stack pins, for any Python, with both."""
    texts = [(ROOT / "requirements" / file).read_text(encoding="utf-8") for file in REQUIREMENTS[stack]]
    pins: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w-]+)==([^\s;]+)", "\n".join(texts), re.MULTILINE):
        pins.setdefault(name, set()).add(version)
    return [
        f"{name} {packages[name]} instead of {' or '.join(sorted(pins[name]))}"
        for name in RECORDED
        if name in packages and name in pins and packages[name].partition("+")[0] not in pins[name]
    ]


def installed(stack: str | None = None) -> Installed | None:
    """Return a stack's environment (this process's if None), or None if it was never set up."""
    if stack is None or stack == own():
        return installed_here()
    return _installed_at(ROOT / STACKS[stack].folder / "bin" / "python")


@functools.cache
def installed_here() -> Installed:
    """Return this process's environment."""
    listed = importlib.metadata.distributions(path=[*sys.path, f"{sys.prefix}/{CUDA11}"])
    # If a package is installed twice, the first on the path is the one that is imported.
    # The remains of a removed package have no name.
    packages = {name: each.version for each in reversed([*listed]) if (name := each.metadata["Name"])}
    return Installed(sys.executable, Path(sys.prefix), platform.python_version(), packages)


@functools.cache
def _installed_at(interpreter: Path) -> Installed | None:
    """An environment by its interpreter; asked once, since nothing is installed meanwhile."""
    try:
        answer = subprocess.run(
            [interpreter, "-m", "bench.setup.stacks"],
            cwd=ROOT,
            capture_output=True,
            timeout=SECONDS,
            check=True,
            text=True,
        )
        listed = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Installed(str(interpreter), Path(listed["prefix"]), listed["python"], listed["packages"])


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(installed_here()), default=str))
