"""What an environment is made of: which Python, and the packages for which device."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.errors import UserError
from bench.setup.nvidia_smi import list_gpus, runs_on, version

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Choice:
    """What an environment is made of; kept until `make clean` or until another device is asked for."""

    python: str  # the interpreter, with every link resolved
    version: str  # its full version
    device: str  # one of `DEVICES`
    architectures: str = ""  # the compute capabilities that CUDA kernels are compiled for, such as `8.0;9.0`
    cpu_adam: bool = False  # whether DeepSpeed's Adam for CPUs is compiled, which few backends use

    def __str__(self) -> str:
        return f"Python {self.version}, {self.device}"


DEFAULT_ARCHITECTURES = "7.5;8.0;9.0"
"""Where no GPU is seen: from Turing to Hopper. A kernel for 8.0 runs on 8.6 and 8.9, too."""


def choice_file(env: Path) -> Path:
    """Return the file that keeps an environment's choice."""
    return env / "setup.json"


def recorded_choice(env: Path) -> Choice | None:
    """Return the recorded choice of a finished or running `make setup`; None if there is no record."""
    try:
        choice = Choice(**json.loads(choice_file(env).read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # none yet, or cut off in writing it
        return None
    return replace(choice, python=str(env.parent / choice.python))


def record_choice(env: Path, choice: Choice) -> None:
    """Write what the environment is made of; a Python that lies in the checkout is moved with it."""
    python = Path(choice.python)
    if env.parent in python.parents:
        python = python.relative_to(env.parent)
    choice_file(env).write_text(json.dumps({**asdict(choice), "python": str(python)}))


def find_architectures(capabilities: tuple[str, str], known: str = "") -> str:
    """Return the capabilities to compile for: the user's, else GPUs' here and recorded ones, else a default.

    Empty if no GPU is supported. Refuses a user's list with an unsupported entry.
    """
    oldest, newest = map(version, capabilities)

    def will_do(capability: tuple[int, ...]) -> bool:
        return capability >= oldest and (not newest or capability[0] <= newest[0])

    if asked := os.environ.get("TORCH_CUDA_ARCH_LIST"):
        wanted = [version(each.replace("+PTX", "")) for each in re.split("[; ]+", asked)]
        if all(map(will_do, wanted)):
            return asked
        raise UserError(
            f"TORCH_CUDA_ARCH_LIST={asked} is no list of compute capabilities between "
            f"{' and '.join(filter(None, capabilities))}",
            "leave it out, or write one such as 8.0;9.0",
        )
    gpus = list_gpus(may_lack_driver=True)
    if not gpus:
        return known or DEFAULT_ARCHITECTURES
    here = {gpu.capability for gpu in gpus if will_do(version(gpu.capability))}
    if here and all(runs_on(version(each), known) for each in here):
        return known
    # Nodes that share an environment may have others.
    return ";".join(sorted({*here, *filter(None, known.split(";"))} if here else (), key=version))


def device_here() -> str:
    """Return "cuda" if the driver lists an NVIDIA GPU, else "cpu"; UserError if it does not answer."""
    return "cuda" if list_gpus() else "cpu"
