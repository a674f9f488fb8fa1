"""Stacks whose set-up has stages of shell commands, and which of these ran."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.setup.choice import DEVICES, Choice
from bench.setup.recipes import STACKS, Stack
from bench.setup.stage import SetupStage

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def shell(name: str, script: str, **more: Any) -> SetupStage:
    """A stage that notes in the file `ran` that it ran, then does what `script` says."""
    command = ("sh", "-ec", f"echo {name} >> ran; {script}")
    return SetupStage(name=name, commands=(command,), **more)


def stack_of(*stages: SetupStage, **more: Any) -> Stack:
    """A stack of these stages, each of which comes after the one before it unless it says something else."""
    linked = tuple(
        stage if stage.after or not place else dataclasses.replace(stage, after=(stages[place - 1].name,))
        for place, stage in enumerate(stages)
    )
    return stack_that_makes(lambda *_: linked, **more)


def stack_that_makes(stages: Callable[[Path, Path, Choice], tuple[SetupStage, ...]], **more: Any) -> Stack:
    """The default stack, of other stages."""
    pythons: dict[str, tuple[str, ...]] = dict.fromkeys(DEVICES, (VERSION,))
    return dataclasses.replace(STACKS["ort"], pythons=pythons, stages=stages, **more)


def ran(checkout: Path) -> list[str]:
    """Return the names of the stages that ran since the last call."""
    try:
        return (checkout / "ran").read_text().split()
    finally:
        (checkout / "ran").write_text("")
