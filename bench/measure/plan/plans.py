"""What one comparison will do: its launches, where it writes, its backends with all that was left open."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.config.schema import Config
from bench.launch.spec import WorkerSpec
from bench.machine.variables import worker_variables
from bench.results.records import NOT_TIMED, LaunchStage, Record
from bench.setup.stacks import Installed


@dataclass(frozen=True)
class Launch:
    """One launch of a comparison."""

    stage: LaunchStage  # what it is for
    number: int = NOT_TIMED  # from 1 for a timed launch; `NOT_TIMED` otherwise
    in_fp32: bool = False  # it trains in fp32, whatever the comparison's precision

    def label(self, launches: int) -> str:
        """Its name in messages to the user, given the number of timed `launches`."""
        if self.stage is LaunchStage.PARITY:
            return "parity launch in fp32" if self.in_fp32 else "parity launch"
        if self.stage is LaunchStage.SEARCH:
            return "search for the largest batch"
        return f"launch {self.number}/{max(self.number, launches)}"


PARITY = Launch(LaunchStage.PARITY)
PARITY_IN_FP32 = Launch(LaunchStage.PARITY, in_fp32=True)
SEARCH = Launch(LaunchStage.SEARCH)


def timed(number: int) -> Launch:
    """The timed launch of this number, from 1."""
    return Launch(LaunchStage.TIMED, number)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where a comparison writes."""

    stem: str  # the results file's name without its ending
    csv: Path  # the results file
    folder: Path  # of this run's raw files: records, logs, specs

    @property
    def initial_state(self) -> Path:
        """The weights that every rank starts from; the reference writes them in the parity launch."""
        return self.folder / "initial.safetensors"

    @property
    def expected_tensors(self) -> Path:
        """The expected gradients and weights; the reference computes them in the parity launch."""
        return self.folder / "expected"

    @property
    def late_weights(self) -> Path:
        """The reference's at the end of a timed launch; other backends load it to compare later losses."""
        return self.folder / "late.safetensors"

    @property
    def nothing_written_marker(self) -> Path:
        """A file that exists from the start of a new run until its first row replaces the results file.

        While it exists, the results file is an older run's, and there is nothing to resume.
        """
        return self.folder.parent / "unwritten"

    def folder_of(self, name: str, launch: Launch) -> Path:
        """Where the spec, log and record of a backend's group lie."""
        if launch.stage is LaunchStage.TIMED:
            return self.folder / f"launch-{launch.number}" / name
        return self.folder / f"{launch.stage.value}{'-in-fp32' * launch.in_fp32}" / name

    def folder_of_trial(self, name: str, number: int) -> Path:
        """Where the spec and log of one trial in the search for the largest micro-batch lie."""
        return self.folder / f"trial-{number}" / name

    def log_of(self, name: str, launch: Launch) -> Path | None:
        """The log of a backend's launch of this run (in the search, of its last trial), if there is one."""
        if launch.stage is LaunchStage.SEARCH:
            logs = self.folder.glob(f"trial-*/{name}/log.txt")
            return max(logs, key=lambda log: log.stat().st_mtime, default=None)
        log = self.folder_of(name, launch) / "log.txt"
        return log if log.exists() else None


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """How far a backend may be from the reference."""

    loss: float  # relative, of every step
    gradient_norm: float  # relative, of every step


@dataclass(frozen=True, kw_only=True)
class ResolvedBackend:
    """One backend with everything that the configuration leaves to it or to the comparison."""

    spec: WorkerSpec  # of a timed launch at the configured micro-batch; other launches differ in some fields
    stack: str  # the name of the stack that its ranks run on
    installed: Installed  # what that stack is: its Python, the folder of its environment
    settings: Mapping[str, Any]  # of `bench.machine.variables.worker_variables` for a timed launch
    tolerances: Tolerances
    update: str  # the optimizer whose update it makes if that is not AdamW's; else nothing
    has_fp32: bool  # it can train in fp32

    def settings_of(self, spec: WorkerSpec) -> dict[str, Any]:
        """The settings for the ranks of a launch, here and on other nodes; it may have another precision."""
        return {**self.settings, "precision": spec.precision.name}

    def variables_of(self, spec: WorkerSpec) -> dict[str, str]:
        """The environment variables of the ranks of a launch on this machine."""
        return worker_variables(os.environ, **self.settings_of(spec), prefix=self.installed.prefix)


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """A configuration, and all that it leaves open, resolved once."""

    config: Config  # checked against this machine
    output: Output
    backends: Mapping[str, ResolvedBackend]  # by name, the reference first
    cores: Sequence[tuple[int, ...]]  # of each rank on this node
    # by backend, what each of its records holds from the start; the launch is filled in later
    records: Mapping[str, Record]

    @property
    def reference(self) -> str:
        """The backend that the others are compared with."""
        return self.config.reference

    @property
    def on_gpus(self) -> bool:
        """Whether ranks have a GPU each."""
        return self.config.device.type == "cuda"

    @property
    def interleaved(self) -> bool:
        """Whether the groups of a launch live side by side, as far as they fit; else one at a time."""
        return self.config.measure.schedule == "interleaved"
