"""Stacks whose set-up has stages of shell commands, and which of these ran."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

from bench.setup.choice import DEVICES
from bench.setup.recipes import STACKS, Stack
from bench.setup.stage import SetupStage

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def shell(name: str, script: str, **more: Any) -> SetupStage:
    """A stage that notes in the file `ran` that it ran, then does what `script` says."""
    command = ("sh", "-ec", f"echo {name} >> ran; {script}")
    return SetupStage(name=name, commands=(command,), **more)


def stack_of(*stages: SetupStage, **more: Any) -> Stack:
    """The default stack, of these stages."""
    pythons: dict[str, tuple[str, ...]] = dict.fromkeys(DEVICES, (VERSION,))
    return dataclasses.replace(STACKS["ort"], pythons=pythons, stages=lambda *_: stages, **more)


def ran(checkout: Path) -> list[str]:
    """Return the names of the stages that ran since the last call."""
    try:
        return (checkout / "ran").read_text().split()
    finally:
        (checkout / "ran").write_text("")
