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
from bench.results.records import Record, Stage


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where a comparison writes.

    Attributes:
        stem: the results file's name without its ending.
        csv: the results file.
        folder: of this run's raw files: records, logs, specs.
    """

    stem: str
    csv: Path
    folder: Path

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
        if launch.stage is Stage.TIMED:
            return self.folder / f"launch-{launch.number}" / name
        variant = "-in-fp32" if launch.in_fp32 else "-from-checkpoint" if launch.from_checkpoint else ""
        return self.folder / (launch.stage.value + variant) / name

    def folder_of_trial(self, name: str, number: int) -> Path:
        """The same for one trial in the search for the largest micro-batch."""
        return self.folder / f"trial-{number}" / name

    def log_of(self, name: str, launch: Launch) -> Path | None:
        """The log of a backend's launch of this run (in the search, of its last trial), if there is one."""
        if launch.stage is Stage.SEARCH:
            logs = self.folder.glob(f"trial-*/{name}/log.txt")
            return max(logs, key=lambda log: log.stat().st_mtime, default=None)
        log = self.folder_of(name, launch) / "log.txt"
        return log if log.exists() else None


@dataclass(frozen=True, kw_only=True)
class BackendPlan:
    """What to launch for one backend.

    Attributes:
        spec: of a timed launch at the configured micro-batch; other launches differ in some fields.
        stack: the name of the stack that its ranks run on.
        interpreter: that stack's Python.
        prefix: the folder of its environment.
        settings: of `bench.machine.variables.worker_variables` for a timed launch.
    """

    spec: WorkerSpec
    stack: str
    interpreter: str
    prefix: Path
    settings: Mapping[str, Any]

    def settings_of(self, spec: WorkerSpec) -> dict[str, Any]:
        """The settings for the ranks of a launch, here and on other nodes; it may have another precision."""
        return {**self.settings, "precision": spec.precision.name}

    def variables_of(self, spec: WorkerSpec) -> dict[str, str]:
        """The environment variables of the ranks of a launch on this machine."""
        return worker_variables(os.environ, **self.settings_of(spec), prefix=self.prefix)


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What to launch.

    Attributes:
        backends: by name.
        world_size: ranks of each group, on all nodes together.
        ranks_per_node: ranks of each group on one node.
        threads: per rank.
        holds_threads: each rank keeps to `threads` cores of its own.
        timeout_s: the longest that one group may take, everything together.
        seed_step: by how much the seed of a timed launch exceeds that of the one before; 0: all share one.
    """

    backends: Mapping[str, BackendPlan]
    world_size: int
    ranks_per_node: int
    threads: int
    holds_threads: bool
    timeout_s: float
    seed_step: int


@dataclass(frozen=True, kw_only=True)
class ParityPlan:
    """How backends are compared with the reference before anything is timed.

    Attributes:
        reference: the backend that the others are compared with.
        all_resident: the groups run side by side; else one after the other.
        steps: optimizer steps of each backend.
        batches: distinct micro-batches that those steps take in turn.
        tolerances: by backend.
        updates: by backend, the optimizer whose update it makes if that is not AdamW's; else nothing.
            Backends with different ones are compared in the first step alone.
        precisions: by backend; where it is not fp32, tensors are compared in fp32, too.
        without_fp32: the backends that cannot train in fp32, so that their tensors are compared in their own
            precision alone.
        parity_only: nothing is timed afterwards.
        stacks: by backend, the name of the stack that its ranks run on.
    """

    reference: str
    all_resident: bool
    steps: int
    batches: int
    tolerances: Mapping[str, Tolerances]
    updates: Mapping[str, str]
    precisions: Mapping[str, str]
    without_fp32: Sequence[str]
    parity_only: bool
    stacks: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """How the largest micro-batch of each backend is searched for.

    Attributes:
        reference: without its micro-batch, the others are not searched for.
        start: the micro-batch to begin with.
        most_trials: launches that the search may take, of each backend.
        steps: that follow the warm-up of each trial, since memory still grows then.
        launches: timed ones that were asked for, for messages.
    """

    reference: str
    start: int
    most_trials: int
    steps: int
    launches: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How many launches of how many rounds, in which order, and until when.

    Attributes:
        reference: the backend that speed-ups are measured against.
        all_resident: the groups of a launch live side by side, and rounds rotate; else one group at a time.
        launches: that were asked for; 0: parity alone.
        rounds: of each launch.
        until: half-width of the interval at which launches end; None: their number is fixed.
        most_launches: `until` adds no launch beyond so many.
        most_seconds: nor one after which all of them would have taken longer.
        wait_s: the longest that launches wait, all together, for other processes to leave the cores alone.
    """

    reference: str
    all_resident: bool
    launches: int
    rounds: int
    until: float | None
    most_launches: int
    most_seconds: float
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class BlockPlan:
    """How a group is set up and its blocks are timed.

    Attributes:
        warmup_steps: optimizer steps of each warm-up block.
        warmup_blocks: how many; None: until memory and speed are settled.
        preheat_s: for so long every backend trains after its warm-up.
        block_seconds: that a timed block of the reference should last.
        repeats: contaminated blocks that a backend may measure again in each launch.
        cores_per_rank: more than a rank's threads if those are not held.
        device: `cpu` or `cuda`.
        world_size: ranks of each group.
        optimizers: by backend.
        shardings: by backend.
    """

    warmup_steps: int
    warmup_blocks: int | None
    preheat_s: float
    block_seconds: float
    repeats: int
    cores_per_rank: int
    device: str
    world_size: int
    optimizers: Mapping[str, str]
    shardings: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ExplainPlan:
    """How backends are profiled after the timed launches.

    Attributes:
        wanted: whether they are.
        all_resident: the groups live side by side and take turns; else one after the other.
        rounds: in each of which every backend takes a few steps.
        seconds: that the profiled steps of a backend should last about, all rounds together.
    """

    wanted: bool
    all_resident: bool
    rounds: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PartsPlan:
    """How steps are taken apart after everything else.

    Attributes:
        launches: fresh processes of each backend.
        seconds: that the steps of a launch should last about.
        timed: else what ranks send and hold is counted only.
        ladder: collectives are timed at many sizes, too.
    """

    launches: int
    seconds: float
    timed: bool
    ladder: bool


@dataclass(frozen=True, kw_only=True)
class ExportPlan:
    """What becomes of trained models.

    Attributes:
        reference: the backend that the others are compared with.
        threads: of ONNX Runtime, which runs them.
    """

    reference: str
    threads: int


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """What has been trained when a checkpoint is saved.

    Attributes:
        steps: that were taken.
        batches: distinct micro-batches that they cycled through.
    """

    steps: int
    batches: int


@dataclass(frozen=True, kw_only=True)
class ConvergePlan:
    """How training is followed to a target.

    Attributes:
        steps: of a block, after each of which the held-out loss is computed.
        rounds: of a launch.
        target: the held-out loss to reach.
        margin: final losses that differ by less are equivalent.
        seed_step: as in `LaunchPlan`.
        cores_per_rank: as in `BlockPlan`.
    """

    steps: int
    rounds: int
    target: float
    margin: float
    seed_step: int
    cores_per_rank: int


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """All parts of it.

    Attributes:
        names: of the backends, the reference first.
        records: by backend, what each of its records holds from the start; the launch is filled in later.
        search: None if all backends run at the configured micro-batch.
        parts: None if nobody wants to know the parts of a step.
        converge: None if nobody wants to know how training gets on.
        after: what follows training in the parity launch.
        resume: go on with what an earlier run has left, instead of replacing it.
    """

    names: Sequence[str]
    output: Output
    records: Mapping[str, Record]
    launching: LaunchPlan
    parity: ParityPlan
    search: SearchPlan | None
    schedule: Schedule
    blocks: BlockPlan
    explain: ExplainPlan
    parts: PartsPlan | None
    after: ExportPlan | CheckpointPlan | None
    converge: ConvergePlan | None
    resume: bool
