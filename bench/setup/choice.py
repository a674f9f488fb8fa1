"""What an environment is made of: which Python, and the packages for which device."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.setup.failure import SetupFailed

DEVICES = ("cpu", "cuda")

PROBE = """
import importlib.util, json, os, sys, sysconfig
header = os.path.join(sysconfig.get_config_var("INCLUDEPY"), "Python.h")
lacks = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
lacks += [] if os.path.exists(header) else ["Python.h"]
version = "%d.%d.%d" % sys.version_info[:3]
print(json.dumps([os.path.realpath(sys.executable), version, lacks]))
"""


@dataclass(frozen=True)
class Choice:
    """What an environment is made of; kept until `make clean` or until another device is asked for.

    Args:
        python: the interpreter, with every link resolved.
        version: its full version.
        device: one of `DEVICES`.
    """

    python: str
    version: str
    device: str

    def __str__(self) -> str:
        return f"Python {self.version}, {self.device}"


def choice_file(env: Path) -> Path:
    """Return the file that keeps an environment's choice."""
    return env / "setup.json"


def recorded_choice(env: Path, pythons: tuple[str, ...], device: str | None) -> Choice | None:
    """Return what the environment is made of, or None if that must be chosen.

    Args:
        env: the environment's folder.
        pythons: the supported versions, such as "3.11".
        device: replaces the recorded one, unless it is None.
    """
    try:
        choice = Choice(**json.loads(choice_file(env).read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # none yet, or cut off in writing it
        return None
    if not Path(choice.python).exists() or minor(choice.version) not in pythons:
        return None
    return dataclasses.replace(choice, device=device or choice.device)


def find_python(versions: tuple[str, ...]) -> tuple[str, str]:
    """Return path and version of the running interpreter if it will do, else of the first on PATH.

    Raises:
        SetupFailed: if there is none; it says what each candidate lacks.
    """
    refused = []
    on_path = (str(Path(folder, f"python{version}")) for version in versions for folder in os.get_exec_path())
    for candidate in (sys.executable, *on_path):
        # Most do not exist, and one that does may be a shim that starts nothing.
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            answer = subprocess.run(
                [candidate, "-c", PROBE], capture_output=True, text=True, timeout=30, check=False
            )
            path, version, lacks = json.loads(answer.stdout)
            if minor(version) in versions and not lacks:
                return path, version
            refused.append(f"{path} is {version}" + "".join(f", without {part}" for part in lacks))
    best = versions[0]
    raise SetupFailed(
        f"No Python {' or '.join(versions)} with venv and its headers was found"
        f" ({'; '.join(dict.fromkeys(refused)) or 'none starts'})",
        f"install one (on Debian or Ubuntu: apt install python{best} python{best}-venv python{best}-dev)"
        f" or name one: make setup PYTHON=/path/to/python{best}",
    )


def minor(version: str) -> str:
    """Return "3.11" for "3.11.7"."""
    return ".".join(version.split(".")[:2])


def device_here() -> str:
    """Return "cuda" if the driver lists an NVIDIA GPU, else "cpu"."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "cpu"
    return "cuda" if listed.returncode == 0 and "GPU " in listed.stdout else "cpu"
