"""What an environment is made of: which Python, and the packages for which device."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.setup.nvidia_smi import list_gpus

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Choice:
    """What an environment is made of; kept until `make clean` or until another device is asked for."""

    python: str  # the interpreter, with every link resolved
    version: str  # its full version
    device: str  # one of `DEVICES`
    cpu_adam: bool = False  # whether DeepSpeed's Adam for CPUs is compiled, which few backends use

    def __str__(self) -> str:
        return f"Python {self.version}, {self.device}"


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


def device_here() -> str:
    """Return "cuda" if the driver lists an NVIDIA GPU, else "cpu"; UserError if it does not answer."""
    return "cuda" if list_gpus() else "cpu"
