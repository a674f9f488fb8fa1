"""What one comparison will do, in parts: each module of this package is handed the part that it needs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.launch.spec import WorkerSpec
from bench.machine.variables import worker_variables
from bench.measure.launches import Launch
from bench.measure.parity import Tolerances
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
        """The same for one trial in the search for the largest micro-batch."""
        return self.folder / f"trial-{number}" / name

    def log_of(self, name: str, launch: Launch) -> Path | None:
        """The log of a backend's launch of this run (in the search, of its last trial), if there is one."""
        if launch.stage is LaunchStage.SEARCH:
            logs = self.folder.glob(f"trial-*/{name}/log.txt")
            return max(logs, key=lambda log: log.stat().st_mtime, default=None)
        log = self.folder_of(name, launch) / "log.txt"
        return log if log.exists() else None


@dataclass(frozen=True, kw_only=True)
class BackendPlan:
    """What to launch for one backend."""

    spec: WorkerSpec  # of a timed launch at the configured micro-batch; other launches differ in some fields
    stack: str  # the name of the stack that its ranks run on
    interpreter: str  # that stack's Python
    prefix: Path  # the folder of its environment
    settings: Mapping[str, Any]  # of `bench.machine.variables.worker_variables` for a timed launch

    def settings_of(self, spec: WorkerSpec) -> dict[str, Any]:
        """The settings for the ranks of a launch, here and on other nodes; it may have another precision."""
        return {**self.settings, "precision": spec.precision.name}

    def variables_of(self, spec: WorkerSpec) -> dict[str, str]:
        """The environment variables of the ranks of a launch on this machine."""
        return worker_variables(os.environ, **self.settings_of(spec), prefix=self.prefix)


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What to launch."""

    backends: Mapping[str, BackendPlan]  # by name
    world_size: int  # ranks of each group, on all nodes together
    ranks_per_node: int  # ranks of each group on one node
    threads: int  # per rank
    holds_threads: bool  # each rank keeps to `threads` cores of its own
    timeout_s: float  # the longest that one group may take, everything together
    seed_step: int  # by how much the seed of a timed launch exceeds that of the one before; 0: all share one


@dataclass(frozen=True, kw_only=True)
class ParityPlan:
    """How backends are compared with the reference before anything is timed."""

    reference: str  # the backend that the others are compared with
    all_resident: bool  # the groups run side by side; else one after the other
    steps: int  # optimizer steps of each backend
    batches: int  # distinct micro-batches that those steps take in turn
    tolerances: Mapping[str, Tolerances]  # by backend
    # by backend, the optimizer whose update it makes if that is not AdamW's; else nothing. Backends with
    # different ones are compared in the first step alone
    updates: Mapping[str, str]
    precisions: Mapping[str, str]  # by backend; where it is not fp32, tensors are compared in fp32, too
    # the backends that cannot train in fp32, so that their tensors are compared in their own precision alone
    without_fp32: Sequence[str]
    parity_only: bool  # nothing is timed afterwards
    stacks: Mapping[str, str]  # by backend, the name of the stack that its ranks run on


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """How the largest micro-batch of each backend is searched for."""

    reference: str  # without its micro-batch, the others are not searched for
    start: int  # the micro-batch to begin with
    most_trials: int  # launches that the search may take, of each backend
    steps: int  # that follow the warm-up of each trial, since memory still grows then
    launches: int  # timed ones that were asked for, for messages


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How many launches of how many rounds, in which order, and until when."""

    reference: str  # the backend that speed-ups are measured against
    # the groups of a launch live side by side, and rounds rotate; else one group at a time
    all_resident: bool
    launches: int  # that were asked for; 0: parity alone
    rounds: int  # of each launch
    until: float | None  # half-width of the interval at which launches end; None: their number is fixed
    most_launches: int  # `until` adds no launch beyond so many
    most_seconds: float  # nor one after which all of them would have taken longer
    # the longest that launches wait, all together, for other processes to leave the cores alone
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """How a group is set up and its blocks are timed."""

    warmup_steps: int  # optimizer steps of each warm-up block
    warmup_blocks: int | None  # how many; None: until memory and speed are settled
    preheat_s: float  # for so long every backend trains after its warm-up
    block_seconds: float  # that a timed block of the reference should last
    repeats: int  # contaminated blocks that a backend may measure again in each launch
    cores_per_rank: int  # more than a rank's threads if those are not held
    device: str  # `cpu` or `cuda`
    world_size: int  # ranks of each group
    optimizers: Mapping[str, str]  # by backend
    shardings: Mapping[str, str]  # by backend


@dataclass(frozen=True, kw_only=True)
class ExplainPlan:
    """How backends are profiled after the timed launches."""

    wanted: bool  # whether they are
    all_resident: bool  # the groups live side by side and take turns; else one after the other
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
class ExportPlan:
    """What becomes of trained models."""

    reference: str  # the backend that the others are compared with
    threads: int  # of ONNX Runtime, which runs them


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """What has been trained when a checkpoint is saved."""

    steps: int  # that were taken
    batches: int  # distinct micro-batches that they cycled through


@dataclass(frozen=True, kw_only=True)
class ConvergePlan:
    """How training is followed to a target."""

    steps: int  # of a block, after each of which the held-out loss is computed
    rounds: int  # of a launch
    target: float  # the held-out loss to reach
    margin: float  # final losses that differ by less are equivalent
    seed_step: int  # as in `LaunchPlan`
    cores_per_rank: int  # as in `BlockPlan`


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """All parts of it."""

    names: Sequence[str]  # of the backends, the reference first
    output: Output
    # by backend, what each of its records holds from the start; the launch is filled in later
    records: Mapping[str, Record]
    launching: LaunchPlan
    parity: ParityPlan
    search: SearchPlan | None  # None if all backends run at the configured micro-batch
    schedule: Schedule
    blocks: BlockPlan
    explain: ExplainPlan
    parts: PartsPlan | None  # None if nobody wants to know the parts of a step
    after: ExportPlan | CheckpointPlan | None  # what follows training in the parity launch
    converge: ConvergePlan | None  # None if nobody wants to know how training gets on
    resume: bool  # go on with what an earlier run has left, instead of replacing it
