"""What one comparison will do, in parts: each stage is handed the part that it needs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.launch.spec import WorkerSpec
from bench.machine.variables import worker_variables
from bench.measure.plan.launches import Launch
from bench.results.records import LaunchStage, Record


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
        """What gradients and weights should be; the reference computes them in the parity launch."""
        return self.folder / "expected"

    @property
    def nothing_written_marker(self) -> Path:
        """Exists from the start of a new run until its first row replaces the results file.

        Where it exists, the results file is an older run's, and there is nothing to resume.
        """
        return self.folder.parent / "unwritten"

    @property
    def checkpoints(self) -> Path:
        """Where states of training lie while they are compared: three times as large as the model, each."""
        return self.folder / "checkpoints"

    def folder_of(self, name: str, launch: Launch) -> Path:
        """Where the spec, log and record of a backend's group lie."""
        if launch.stage is LaunchStage.TIMED:
            return self.folder / f"launch-{launch.number}" / name
        variant = "-in-fp32" if launch.in_fp32 else "-from-checkpoint" if launch.from_checkpoint else ""
        return self.folder / (launch.stage.value + variant) / name

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
    interpreter: str  # that stack's Python
    prefix: Path  # the folder of its environment
    settings: Mapping[str, Any]  # of `bench.machine.variables.worker_variables` for a timed launch
    tolerances: Tolerances
    update: str  # the optimizer whose update it makes if that is not AdamW's; else nothing
    has_fp32: bool  # it can train in fp32

    def settings_of(self, spec: WorkerSpec) -> dict[str, Any]:
        """The settings for the ranks of a launch, here and on other nodes; it may have another precision."""
        return {**self.settings, "precision": spec.precision.name}

    def variables_of(self, spec: WorkerSpec) -> dict[str, str]:
        """The environment variables of the ranks of a launch on this machine."""
        return worker_variables(os.environ, **self.settings_of(spec), prefix=self.prefix)


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """How every group is launched."""

    world_size: int  # ranks of each group, on all nodes together
    timeout_s: float  # the longest that one group may take, everything together
    seed_step: int  # by how much the seed of a timed launch exceeds that of the one before; 0: all share one
    # the longest that launches wait, all together, for other processes to leave the cores alone
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """How a group is warmed up and its blocks are timed."""

    warmup_steps: int  # optimizer steps of each warm-up block
    warmup_blocks: int | None  # how many; None: until memory and speed are settled
    preheat_s: float  # for so long every backend trains after its warm-up
    block_seconds: float  # that a timed block of the reference should last
    repeats: int  # contaminated blocks that a backend may measure again in each launch


@dataclass(frozen=True, kw_only=True)
class ParityPlan:
    """How backends are compared with the reference before anything is timed."""

    steps: int  # optimizer steps of each backend
    batches: int  # distinct micro-batches that those steps take in turn


@dataclass(frozen=True, kw_only=True)
class ExportPlan:
    """How exported models are run."""

    threads: int  # of ONNX Runtime


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """How the largest micro-batch of each backend is searched for."""

    start: int  # the micro-batch to begin with
    most_trials: int  # launches that the search may take, of each backend
    steps: int  # that follow the warm-up of each trial, since memory still grows then


@dataclass(frozen=True, kw_only=True)
class ConvergePlan:
    """How training is followed to a target."""

    steps: int  # of a block, after each of which the held-out loss is computed
    target: float  # the held-out loss to reach
    margin: float  # final losses that differ by less are equivalent


@dataclass(frozen=True, kw_only=True)
class TimedPlan:
    """How many rounds, and until when launches follow."""

    rounds: int  # of each launch
    until: float | None  # half-width of the interval at which launches end; None: their number is fixed
    most_launches: int  # `until` adds no launch beyond so many
    most_seconds: float  # nor one after which all of them would have taken longer
    converge: ConvergePlan | None  # None if nobody wants to know how training gets on


@dataclass(frozen=True, kw_only=True)
class ProfilePlan:
    """How backends are profiled after the timed launches."""

    rounds: int  # in each of which every backend takes a few steps
    seconds: float  # that the profiled steps of a backend should last about, all rounds together


@dataclass(frozen=True, kw_only=True)
class PartsPlan:
    """How steps are taken apart after everything else."""

    launches: int  # fresh processes of each backend
    seconds: float  # that the steps of a launch should last about
    timed: bool  # else what ranks send and hold is counted only
    ladder: bool  # collectives are timed at many sizes, too


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """All parts of it; None in place of a stage's plan: that stage is not wanted."""

    reference: str  # the backend that the others are compared with
    backends: Mapping[str, ResolvedBackend]  # by name, the reference first
    cores: Sequence[tuple[int, ...]]  # of each rank on this node
    # the groups of a launch live side by side, and rounds rotate; else one group at a time
    all_resident: bool
    launches: int  # timed ones that were asked for; 0: parity alone
    resume: bool  # go on with what an earlier run has left, instead of replacing it
    output: Output
    # by backend, what each of its records holds from the start; the launch is filled in later
    records: Mapping[str, Record]
    launching: LaunchPlan
    blocks: BlockPlan
    parity: ParityPlan
    export: ExportPlan | None
    checkpoint: ParityPlan | None  # what has been trained when a checkpoint is saved
    search: SearchPlan | None
    timed: TimedPlan | None
    profiles: ProfilePlan | None
    parts: PartsPlan | None
