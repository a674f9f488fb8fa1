"""One part of a set-up, and how a finished one is recognised."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class SetupStage:
    """One part of a set-up. A change of anything but the prose makes it be done again."""

    name: str  # names its stamp and its log
    # run one after the other in the checkout, the environment's `bin` first in PATH
    commands: tuple[tuple[str, ...], ...]
    variables: tuple[tuple[str, str], ...] = ()  # added to the commands' environment
    discards: tuple[str, ...] = ()  # patterns below the environment, removed before the first command
    # patterns below the environment; without a match for each, the stage is not done
    proof: tuple[str, ...] = ()
    inputs: tuple[Path, ...] = field(default=(), repr=False)  # the files whose content the result depends on
    does: str = field(default="", repr=False)  # prose: what runs, and roughly how long
    remedy: str = field(default="see the log", repr=False)  # prose: what to try when it fails

    def stamp(self, env: Path) -> Path:
        """Return the file that holds the hash of this stage once it is done."""
        return env / f"setup-{self.name}.stamp"

    def log(self, env: Path) -> Path:
        """Return the file that takes what the commands print."""
        return env / f"setup-{self.name}.log"

    def unproven(self, env: Path) -> list[str]:
        """Return what this stage should have left behind and did not."""
        return [pattern for pattern in self.proof if not any(path.exists() for path in env.glob(pattern))]


def pending(stages: tuple[SetupStage, ...], env: Path) -> dict[SetupStage, str]:
    """Return the first stage that is not done, and all after it, each with the hash for its stamp.

    A stage's hash covers its definition, its inputs and the stages before it; not where the checkout lies, so
    that it may be moved.
    """
    digest = hashlib.sha256()
    todo: dict[SetupStage, str] = {}
    for stage in stages:
        digest.update(repr(stage).replace(str(env.parent), ".").encode())
        for path in stage.inputs:
            digest.update(path.read_bytes())
        stamp, wanted = stage.stamp(env), digest.hexdigest()
        finished = stamp.exists() and stamp.read_text() == wanted and not stage.unproven(env)
        if todo or not finished:
            todo[stage] = wanted
    return todo
