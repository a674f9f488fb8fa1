"""The record of one backend in one launch: immutable, versioned, raw figures only.

Nothing here is divided, averaged or rounded: a record holds counts, seconds and bytes as they were
measured, one value per rank where ranks differ. `bench.results.rows` turns records into CSV rows.
"""

import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from bench.machine.telemetry.gpu_meter import GpuSample
from bench.results.atomic import write_atomically
from bench.results.prediction import Predicted

SCHEMA_VERSION = 14
"""The version of record and CSV: goes up with any change of their columns; git's history has the changes."""

NOT_TIMED = 0  # the launch number of the parity check and of the search; timed launches count from 1


class LaunchStage(str, Enum):
    """What a launch is for."""

    PARITY = "parity"  # does the backend train like the reference? Dropout is off
    SEARCH = "search"  # which is the largest micro-batch that fits?
    TIMED = "timed"  # how fast is it?


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What every phase of a launch leaves behind: set-up, first step, warm-up, each timed block.

    Every tuple holds one value per rank, in the order of the ranks; None where a figure is not available.
    """

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    other_cpu_seconds: tuple[float | None, ...]  # that others had of the rank's cores; by ticks, may be < 0
    stolen_seconds: tuple[float | None, ...]  # that the hypervisor took of them
    page_faults: tuple[int, ...]
    cpu_clock_mhz: tuple[float | None, ...]  # at the end; the fastest of the rank's cores
    cpu_throttles: tuple[int | None, ...]  # times that the rank's cores slowed down for heat
    host_peak_bytes: tuple[int | None, ...]  # pages of files, such as libraries, included
    host_anonymous_peak_bytes: tuple[int | None, ...]  # without them
    torch_peak_allocated_bytes: tuple[int | None, ...]
    torch_peak_reserved_bytes: tuple[int | None, ...]
    device_used_bytes: tuple[int | None, ...]  # at the end, of the whole device
    device_process_bytes: tuple[int | None, ...]  # at the end, of this rank
    energy_joules: tuple[float | None, ...]  # a difference of the device's counter
    device_others_bytes: tuple[int | None, ...] = ()  # part of `device_used_bytes` outside the group …
    device_foreign_bytes: tuple[int | None, ...] = ()  # … and outside all groups of the launch
    samples: tuple[tuple[GpuSample, ...], ...] = ()  # per device, while the phase ran
    device_ends: tuple[tuple[GpuSample, ...], ...] = ()  # per rank, before the phase and after it


@dataclass(frozen=True, kw_only=True)
class WarmUp(Phase):
    """One of the blocks between the first step and the timed ones."""

    steps: int


@dataclass(frozen=True, kw_only=True)
class Block(Phase):
    """One timed block: `steps` optimizer steps of one backend in one round."""

    round: int  # from 1
    position: int  # the backend's place in this round, from 1
    attempt: int  # from 1; above it, the one before was contaminated
    steps: int
    last_loss: tuple[float, ...]  # of the block's last step
    loader_seconds: tuple[float | None, ...] = ()  # that the rank waited for batches; None: made beforehand
    loss_scale: float | None = None  # at the end; None: the loss is not scaled
    skipped_steps: int | None = None  # as gradients overflowed: less work; None: the loss is not scaled
    allocator_retries: tuple[int | None, ...] = ()  # of torch's on the device: it freed all it kept


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is trained; equal for all backends of a comparison, except the batch if `batch_rule` is max."""

    model: str
    task: str
    precision: str
    attention: str  # empty until a rank has chosen it
    world_size: int
    micro_batch: int
    grad_accum: int
    seq_len: int | None
    size: str  # published, mini, layers:N, pretrained, or random weights of a config.json
    data: str  # synthetic, hf:<path>, or python_docs:<digest of the text>
    lengths: str  # the distribution of synthetic samples' lengths; empty otherwise
    checkpointing: bool
    batch_rule: str  # equal, or max: each backend at its own largest micro-batch
    loader: str = ""  # how batches are prepared, such as workers=2; empty: beforehand
    memory_limit_gib: float | None = None
    nodes: int = 1
    link_gbit_per_s: float | None = None  # the limit set for the link between them
    layers: int | None = None  # of the deepest stack; None where the configuration does not say
    published_layers: int | None = None  # of the same stack in the model as published
    parameters: int | None = None  # known once a worker has built the model
    trainable_parameters: int | None = None  # fewer with LoRA
    padding_share: float | None = None  # padded positions / all positions of the batches used
    weights: str = ""  # what of a checkpoint was not used, and what was new for the task


@dataclass(frozen=True, kw_only=True)
class BatchTrial:
    """One fresh start in the search for the largest micro-batch."""

    micro_batch: int
    fits: bool
    message: str = ""  # why not


@dataclass(frozen=True, kw_only=True)
class TensorVerdict:
    """How far a tensor is from plain PyTorch's in fp32; all are L2 norms over it."""

    tensor: str  # `gradient`, `buffer`, `last gradient` or `weight update`, and its name in the model
    error: float  # of the difference
    norm: float  # of what is expected
    noise: float  # of what rounding alone changes
    allowed: float  # of the difference, at most

    def share(self) -> float:
        """The error over the allowed one; more than 1 is wrong, and NaN counts as infinite."""
        if math.isnan(self.error):
            return math.inf
        if not self.error:
            return 0.0
        return self.error / self.allowed if self.allowed else math.inf


@dataclass(frozen=True, kw_only=True)
class Record:
    """One backend in one launch."""

    study: str
    comparison: str  # the results file's stem
    overrides: tuple[str, ...] = ()  # of Hydra, that make it again
    command: str = ""  # the same as a line to type
    backend: str
    reference: str  # the backend that speed-ups are measured against
    engine: str
    engine_options: str = ""  # as bench.config.engine_options formats them
    optimizer: str  # the one that really ran
    sharding: str
    loop: str = "bare"  # what made the steps: the harness's own loop, or a library's
    slowed_by: float = 0.0  # share of its time that every step waits, on purpose
    stage: LaunchStage
    launch: int  # NOT_TIMED, or from 1 if timed
    status: str
    message: str = ""
    log_tail: str = ""
    started_at: str  # ISO 8601, UTC
    git_commit: str
    stack: str
    device: str
    threads_per_rank: int
    cores_per_rank: int  # more than threads_per_rank: the threads were not held
    rank_cores: tuple[tuple[int, ...], ...] = ()  # of each rank on the coordinator's node
    allocator: str
    blas: str = "stock"
    seed: int
    margin: float
    target_half_width: float | None = None  # half-width at which launches end; None: their number is fixed
    workload: Workload
    setup: Phase | None = None
    first_step: Phase | None = None
    warm_up: tuple[WarmUp, ...] = ()
    warm_up_settled: bool | None = None  # None: it has not ended
    blocks: tuple[Block, ...] = ()
    host_runtime_bytes: tuple[int | None, ...] = ()  # of each rank's memory before there was a model
    host_runtime_anonymous_bytes: tuple[int | None, ...] = ()  # the same without pages of files
    import_seconds: tuple[float, ...] = ()  # of each rank's set-up, until there was a model
    predicted: Predicted | None = None  # from the parameters alone
    weights_bytes: tuple[int, ...] = ()  # per rank, all copies of the weights
    optimizer_state_bytes: tuple[int, ...] = ()  # per rank
    saturating_micro_batch: int | None = None  # that fills the GPU, for all backends
    trials: tuple[BatchTrial, ...] = ()  # of the search for the largest micro-batch
    found: dict[str, Any] = field(default_factory=dict)  # by studies, under their names
    parity_losses: tuple[float, ...] = ()  # of every step of the parity launch, mean over the ranks
    parity_gradient_norms: tuple[float, ...] = ()  # of the same steps, before the update
    loss_difference: float | None = None  # the largest relative one of these from the reference's
    parity_note: str = ""  # what of the tensors was not compared, and why
    worst_tensors: dict[str, TensorVerdict] = field(default_factory=dict)  # by precision
    proof: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # why a figure could not be had, by its name
    device_before: tuple[GpuSample, ...] = ()  # per device, just before the group started
    config: dict[str, Any] = field(default_factory=dict)
    config_hash: str
    environment: dict[str, Any]
    environment_hash: str
    schema_version: int = SCHEMA_VERSION

    def save(self, path: Path) -> None:
        """Write the record as JSON, atomically: a reader sees the old file or the new, never half.

        The file is replaced after every block. NaN and infinity become null: JSON has neither.
        """
        import msgspec  # comparing results files does without it

        write_atomically(path, msgspec.json.format(msgspec.json.encode(self), indent=1))
