"""The stacks: sets of versions that belong together, each an environment of this checkout.

One comparison may hold backends of several: each backend's ranks run on the interpreter of its own stack, and
the coordinator on the one that it was started with.
"""

import functools
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.setup.bootstrap import CHECKOUT, STACKS

ROOT = CHECKOUT

NAMES = tuple(STACKS)
"""The default first."""

ORT_TRAINING = ("onnxruntime-training", "onnxruntime-training-cpu")
"""ONNX Runtime Training's distributions, for GPUs and without."""

NEWEST_TORCH_FOR_ORT = (2, 6)

SECONDS = 60
"""An interpreter that lists its packages takes a tenth of one; a cold disk may take a while."""

# Of a package that is there twice, the first on the path is the one that is imported. What has no name is
# what a removal has left.
LIST = """
import importlib.metadata, json, platform, sys
packages = {one.metadata["Name"]: one.version for one in reversed([*importlib.metadata.distributions()])}
packages.pop(None, None)
print(json.dumps({"python": platform.python_version(), "packages": packages, "prefix": sys.prefix}))
"""


@dataclass(frozen=True)
class Installed:
    """An environment as it is.

    Args:
        interpreter: its Python.
        prefix: its folder.
        python: the version of Python.
        packages: every distribution's version.
    """

    interpreter: str
    prefix: Path
    python: str
    packages: Mapping[str, str]


def own() -> str:
    """The stack that this process runs on: `ort`, unless its torch is too new for ONNX Runtime Training."""
    packages = installed_here().packages
    if any(name in packages for name in ORT_TRAINING):
        return "ort"
    torch = tuple(int(part) for part in packages.get("torch", "0").split(".")[:2])
    return "modern" if torch > NEWEST_TORCH_FOR_ORT else "ort"


def installed(stack: str | None = None) -> Installed | None:
    """A stack's environment; this process's if None, and None if it was never set up."""
    if stack is None or stack == own():
        return installed_here()
    return _installed_at(ROOT / STACKS[stack].folder / "bin" / "python")


@functools.cache
def installed_here() -> Installed:
    """This process's environment."""
    found = [(one.metadata["Name"], one.version) for one in importlib.metadata.distributions()]
    packages = {name: version for name, version in reversed(found) if name}  # as in LIST
    return Installed(sys.executable, Path(sys.prefix), platform.python_version(), packages)


@functools.cache
def _installed_at(interpreter: Path) -> Installed | None:
    """An environment by its interpreter; asked once, since nothing is installed meanwhile."""
    try:
        answer = subprocess.run(
            [interpreter, "-c", LIST], capture_output=True, timeout=SECONDS, check=True, text=True
        )
        found = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Installed(str(interpreter), Path(found["prefix"]), found["python"], found["packages"])
