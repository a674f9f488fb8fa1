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
from bench.setup.surroundings import describe_lacking, find_lacking

PROBE = """
import ensurepip, json, os, sys, sysconfig, venv
assert os.path.exists(os.path.join(sysconfig.get_config_var("INCLUDEPY"), "Python.h"))
print(json.dumps([os.path.realpath(sys.executable), "%d.%d.%d" % sys.version_info[:3]]))
"""
"""Fails where a Python lacks its venv or its headers, which some distributions package apart."""

TAIL_LINES = 8  # of what a failed command has printed

REMEDY = (
    "name a mirror of its archives in UV_PYTHON_INSTALL_MIRROR, or install Python {0} with pyenv or conda "
    "and name it: make setup PYTHON=/path/to/python{0}"
)
"""What to do where uv cannot bring a Python: no package's name, since most distributions have one Python."""


def look_for_python(versions: tuple[str, ...]) -> tuple[str, str] | None:
    """Return path and version of the running interpreter if it will do, else of the first on PATH."""
    on_path = (str(Path(folder, f"python{version}")) for version in versions for folder in os.get_exec_path())
    probed = filter(None, map(_probe, (sys.executable, *on_path)))  # most do not exist
    return next((found for found in probed if minor(found[1]) in versions), None)


def find_or_bring_python(versions: tuple[str, ...]) -> tuple[str, str]:
    """Return path and version of a Python that is here, else of the newest of these, brought by uv."""
    if found := look_for_python(versions):
        return found
    accepted = " or ".join(sorted(versions, key=version))
    print(f"No Python {accepted} with venv and its headers is here.", flush=True)
    return bring_python(versions)


def bring_python(versions: tuple[str, ...], install_dir: str = "") -> tuple[str, str]:
    """Return path and version of the newest of these, brought by uv into a folder, or its own."""
    newest = max(versions, key=version)
    if lacking := find_lacking(brings_python=True):
        raise describe_lacking(lacking)
    print(f"uv brings Python {newest}, 30 to 50 MB ...", flush=True)
    into = {"UV_PYTHON_INSTALL_DIR": install_dir} if install_dir else {}
    variables = {**os.environ, "PIP_USER": "0", **into}
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder, "bin", "python"))
        uv = (python, "-m", "bench.setup.uv", "python")
        _run(variables, sys.executable, "-m", "venv", folder, remedy=REMEDY.format(newest))
        requirements = str(ROOT / "requirements" / "uv.txt")
        _run(variables, python, "-m", "pip", "install", "--quiet", "-r", requirements, remedy=NETWORK)
        for command in (("install", "--no-bin"), ("find", "--managed-python", "--system")):
            path = _run(variables, *uv, *command, newest, remedy=REMEDY.format(newest)).strip()
    if (probed := _probe(path)) is None:
        raise UserError(f"The Python that uv brought to {path} does not start here", REMEDY.format(newest))
    return probed


def minor(number: str) -> str:
    """Return "3.11" for "3.11.7"."""
    return ".".join(number.split(".")[:2])


def _probe(interpreter: str) -> tuple[str, str] | None:
    """The path of an interpreter without links, and its version; None if it will not do."""
    with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):  # it may be a shim
        answer = subprocess.run(
            [interpreter, "-c", PROBE], capture_output=True, text=True, timeout=30, check=False
        )
        path, number = json.loads(answer.stdout)
        return path, number
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
