"""One part of a set-up, and how a finished one is recognised."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

INSTRUCTION_SETS = re.compile(r"\b(avx\w*|fma|f16c|bmi\d|asimd\w*|sve\w*|atomics|bf16|i8mm)\b")
"""Those that -march=native uses and not every CPU has, as /proc/cpuinfo spells them, on x86 and Arm."""


@dataclass(frozen=True)
class SetupStage:
    """One part of a set-up. A change of anything but the prose makes it be done again."""

    name: str  # names its stamp and its log
    # run one after the other in the checkout, the environment's `bin` first in PATH
    commands: tuple[tuple[str, ...], ...]
    # the names of the stages whose results it needs; what else is to be done runs beside it
    after: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()  # added to the commands' environment
    discards: tuple[str, ...] = ()  # patterns below the environment, removed before the first command
    # patterns below the environment; without a match for each, the stage is not done
    proof: tuple[str, ...] = ()
    inputs: tuple[Path, ...] = field(default=(), repr=False)  # the files whose content the result depends on
    tools: tuple[str, ...] = ()  # what it uses of `bench.setup.surroundings.PACKAGES`
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
    """Return every stage that is not done, and all that come after it, each with the hash for its stamp.

    A stage's hash covers its definition, its inputs and the stages that it comes after, which stand before it
    in `stages`; not where the checkout lies, so that it may be moved.
    """
    hashes: dict[str, str] = {}
    todo: dict[SetupStage, str] = {}
    for stage in stages:
        digest = hashlib.sha256(repr(stage).replace(str(env.parent), ".").encode())
        for path in stage.inputs:
            digest.update(path.read_bytes())
        for earlier in stage.after:
            digest.update(hashes[earlier].encode())
        hashes[stage.name] = digest.hexdigest()
        stamp, undone = stage.stamp(env), {each.name for each in todo}
        finished = stamp.exists() and stamp.read_text() == hashes[stage.name] and not stage.unproven(env)
        if not finished or not undone.isdisjoint(stage.after):
            todo[stage] = hashes[stage.name]
    return todo


def instruction_sets() -> set[str]:
    """Return this CPU's instruction sets, as far as compiled code depends on them."""
    return set(INSTRUCTION_SETS.findall(Path("/proc/cpuinfo").read_text()))


def cpu_file(env: Path, stage: str) -> Path:
    """Return the file that holds the instruction sets of the CPU that a stage was done on."""
    return env / f"setup-{stage}.cpu"
