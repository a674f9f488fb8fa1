"""The Python for an environment: an installed one, or else one that uv downloads."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.errors import UserError
from bench.setup.checkout import ROOT
from bench.setup.nvidia_smi import version
from bench.setup.recipes import NETWORK
from bench.setup.surroundings import describe_lacking, find_lacking, spare_folders

PROBE = """
import importlib.util, json, os, sys, sysconfig
header = os.path.join(sysconfig.get_config_var("INCLUDEPY"), "Python.h")
lacks = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
lacks += [] if os.path.exists(header) else ["Python.h"]
version = "%d.%d.%d" % sys.version_info[:3]
print(json.dumps([os.path.realpath(sys.executable), version, lacks]))
"""

TAIL_LINES = 8  # of what a failed command has printed

REMEDY = (
    "name a mirror of its archives in UV_PYTHON_INSTALL_MIRROR, or install Python {0} with pyenv or conda "
    "and name it: make setup PYTHON=/path/to/python{0}"
)
"""What to do where uv cannot bring a Python: no package's name, since most distributions have one Python."""


def look_for_python(versions: tuple[str, ...]) -> tuple[tuple[str, str] | None, str]:
    """Return path and version of the running interpreter if it will do, else of the first on PATH, or None.

    Then why the rejected ones will not do, in words.
    """
    refused = []
    on_path = (str(Path(folder, f"python{version}")) for version in versions for folder in os.get_exec_path())
    for candidate in (sys.executable, *on_path):
        if (probed := _probe(candidate)) is None:  # most do not exist
            continue
        path, number, lacks = probed
        if minor(number) in versions and not lacks:
            return (path, number), ""
        refused.append(f"{path} is {number}" + "".join(f", without {part}" for part in lacks))
    return None, "; ".join(dict.fromkeys(refused))


def find_or_bring_python(versions: tuple[str, ...], env: Path) -> tuple[str, str]:
    """Return path and version of a Python that is here, else of the newest of these, brought by uv.

    uv keeps it outside of the checkout, for all of them, and its own settings count. UserError if it cannot.
    """
    found, refused = look_for_python(versions)
    if found:
        return found
    print(
        f"No Python {' or '.join(sorted(versions, key=version))} with venv and its headers is here "
        f"({refused}):",
        flush=True,
    )
    return bring_python(versions, spare_folders(env))


def bring_python(versions: tuple[str, ...], settings: dict[str, str]) -> tuple[str, str]:
    """Return path and version of the newest of these, brought by uv with these variables.

    UserError if it cannot.
    """
    newest = newest_of(versions)
    if lacking := find_lacking(brings_python=True):
        raise describe_lacking(lacking)
    print(f"uv brings Python {newest}, 30 to 50 MB ...", flush=True)
    variables = {**os.environ, **settings}
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder, "bin", "python"))
        uv = (python, "-m", "bench.setup.uv", "python")
        _run(variables, sys.executable, "-m", "venv", folder, remedy=REMEDY.format(newest))
        requirements = str(ROOT / "requirements" / "uv.txt")
        _run(variables, python, "-m", "pip", "install", "--quiet", "-r", requirements, remedy=NETWORK)
        for command in (("install", "--no-bin"), ("find", "--managed-python", "--system")):
            path = _run(variables, *uv, *command, newest, remedy=REMEDY.format(newest)).strip()
    probed = _probe(path)
    if probed is None or probed[2]:
        trouble = "does not start here" if probed is None else f"lacks {', '.join(probed[2])}"
        raise UserError(f"The Python that uv brought to {path} {trouble}", REMEDY.format(newest))
    return probed[0], probed[1]


def newest_of(versions: tuple[str, ...]) -> str:
    """Return "3.12" of ("3.9", "3.12")."""
    return max(versions, key=version)


def minor(number: str) -> str:
    """Return "3.11" for "3.11.7"."""
    return ".".join(number.split(".")[:2])


def _probe(interpreter: str) -> tuple[str, str, list[str]] | None:
    """The path of an interpreter without links, its version, what it lacks; None if it does not start."""
    with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):  # it may be a shim
        answer = subprocess.run(
            [interpreter, "-c", PROBE], capture_output=True, text=True, timeout=30, check=False
        )
        path, number, lacks = json.loads(answer.stdout)
        return path, number, lacks
    return None


def _run(variables: dict[str, str], *command: str, remedy: str) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        tail = [f"    {line}" for line in done.stderr.splitlines() if line.strip()][-TAIL_LINES:]
        raise UserError("\n".join([*tail, "The set-up cannot bring a Python"]), remedy)
    return done.stdout
