"""The typed configuration: what `conf/` composes into, checked once, before any work starts.

Every dataclass refuses what is impossible in itself and names the dotted key; `Config` refuses what its
parts make of each other, `machine` what this machine cannot do. Nothing here knows of Hydra: `compose`
makes a `Config` out of a command line.
"""

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any

from bench.errors import UserError

ENGINES = ("eager", "ortmodule")
OPTIMIZERS = ("adamw", "adamw_fused", "ort_fused_adam")
SHARDINGS = ("ddp", "zero1")
TASKS = ("masked-lm", "causal-lm")
ATTENTIONS = ("eager", "sdpa")
PRECISIONS = ("fp32", "tf32")
DEVICES = ("cpu", "cuda")
ALLOCATORS = ("tuned", "system")
RESIDENTS = ("all", "one")

NAME = re.compile(r"\w[\w@.+-]*")
"""Of a backend."""

MOST = {
    "launches": 1000,
    "most_launches": 1000,
    "rounds": 10_000,
    "warmup_steps": 10_000,
    "parity_steps": 10_000,
}
"""Settings of `measure` above which a typing mistake is likelier than a wish."""


def one_of(key: str, value: str, known: tuple[str, ...]) -> None:
    """Raise UserError unless `value` is one of `known`."""
    if value not in known:
        raise UserError(f"{key}={value} is not known; choose one of: {', '.join(known)}.")


def at_least(key: str, value: float, least: float) -> None:
    """Raise UserError unless `value` >= `least`, and finite."""
    if not least <= value < math.inf:
        raise UserError(f"{key} must be at least {least}, not {value}.")


def at_most(key: str, value: float, most: float, why: str) -> None:
    """Raise UserError unless `value` <= `most`."""
    if value > most:
        raise UserError(f"{key} must be at most {most:,}, not {value:,}: {why}.")


def above_zero(key: str, value: float) -> None:
    """Raise UserError unless `value` > 0, and finite."""
    if not 0 < value < math.inf:
        raise UserError(f"{key} must be above 0, not {value}.")


@dataclass(kw_only=True)
class Model:
    """A published architecture, built from its configuration without a download."""

    name: str
    task: str
    architecture: str  # transformers' model_type, e.g. "bert"
    config: dict[str, Any]  # what differs from the architecture's default configuration
    parameters: int  # the published count, with tied weights counted once
    source: str  # where the dimensions were published
    micro_batch: int  # per rank, as published or customary
    seq_len: int
    pretrained: str | None = None  # a hub id or a folder; random weights from `config` when None

    def __post_init__(self) -> None:
        one_of("model.task", self.task, TASKS)
        at_least("model.parameters", self.parameters, 1)

    def positions(self) -> int | None:
        """The longest sequence that the position embeddings allow, where `config` tells."""
        return self.config.get("max_position_embeddings", self.config.get("n_positions"))


@dataclass(kw_only=True)
class Backend:
    """Three independent choices; a backend is data. `Config`, which knows its name, checks it."""

    engine: str
    optimizer: str
    sharding: str
    slowed_by: float = 0.0  # share of its own time that every step waits in vain: for `make selftest`

    def optimizer_on(self, device: str) -> str:
        """The optimizer that runs on `device`.

        ORT's FusedAdam has no CPU kernel; torch's fused AdamW, which has one, stands in for it.
        """
        if self.optimizer == "ort_fused_adam" and device == "cpu":
            return "adamw_fused"
        return self.optimizer


@dataclass(kw_only=True)
class Data:
    """Synthetic batches of a fixed length, padded like real text."""

    name: str
    batches: int  # distinct micro-batches per rank, cycled through
    min_length_share: float  # lengths are uniform between this share of seq_len and all of it

    def __post_init__(self) -> None:
        one_of("data.name", self.name, ("synthetic",))
        at_least("data.batches", self.batches, 2)
        if not 0 < self.min_length_share <= 1:
            raise UserError(
                f"data.min_length_share must be above 0 and at most 1, not {self.min_length_share}."
            )


@dataclass(kw_only=True)
class Adam:
    """What every optimizer of a comparison gets: AdamW, its weight decay decoupled."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float

    def __post_init__(self) -> None:
        above_zero("adam.lr", self.lr)
        at_least("adam.eps", self.eps, 0)
        at_least("adam.weight_decay", self.weight_decay, 0)
        for key, beta in (("adam.beta1", self.beta1), ("adam.beta2", self.beta2)):
            if not 0 <= beta < 1:
                raise UserError(f"{key} must be at least 0 and below 1, not {beta}.")


@dataclass(kw_only=True)
class Measure:
    """How long and how often is measured."""

    launches: int
    rounds: int
    block_seconds: float
    warmup_steps: int  # of each warm-up block; there are at least two after the first step
    resident: str  # all: every group stays alive, rounds rotate; one: one group at a time
    parity_steps: int
    parity_tolerance: float  # relative, on the loss of every parity step
    margin: float  # a speed-up inside ± margin is called `same`
    repeats: int  # contaminated blocks that a backend may measure again in each launch
    until: float | None  # half-width, such as 0.01: launches are added until every interval is as narrow
    most_launches: int  # the caps of `until`
    most_seconds: float  # of all launches, not counting parity
    timeout_s: float  # the longest that one backend may take in one launch, everything together

    def __post_init__(self) -> None:
        one_of("measure.resident", self.resident, RESIDENTS)
        at_least("measure.launches", self.launches, 1)
        at_least("measure.rounds", self.rounds, 1)
        at_least("measure.warmup_steps", self.warmup_steps, 1)
        at_least("measure.parity_steps", self.parity_steps, 2)
        at_least("measure.repeats", self.repeats, 0)
        at_least("measure.most_launches", self.most_launches, 1)
        at_least("measure.timeout_s", self.timeout_s, 1)
        above_zero("measure.most_seconds", self.most_seconds)
        for key, most in MOST.items():
            at_most(f"measure.{key}", getattr(self, key), most, "nobody waits for so many")
        if self.until is not None:
            above_zero("measure.until", self.until)
        for key in ("block_seconds", "parity_tolerance", "margin"):
            above_zero(f"measure.{key}", getattr(self, key))
        blocks = self.rounds * self.block_seconds
        if blocks > self.timeout_s:
            raise UserError(
                f"measure.rounds={self.rounds} of measure.block_seconds={self.block_seconds:g} take longer "
                f"than measure.timeout_s={self.timeout_s:g}, which ends a launch; "
                f"set measure.timeout_s={2 * blocks:g}."
            )


@dataclass(kw_only=True)
class Device:
    """What the ranks run on."""

    type: str
    world_size: int
    threads: int  # per rank
    # Each rank keeps to `threads` cores of its own, and the engine to as many threads. If false, nothing is
    # held but what torchrun holds: an engine that ignores OMP_NUM_THREADS takes what it likes.
    hold_threads: bool
    allocator: str  # tuned: the same glibc malloc settings for all workers; system: glibc's defaults
    # of a backend's private memory on the host, shared equally by its ranks; none if null
    memory_limit_gib: float | None = None

    def __post_init__(self) -> None:
        one_of("device.type", self.type, DEVICES)
        one_of("device.allocator", self.allocator, ALLOCATORS)
        at_least("device.world_size", self.world_size, 1)
        at_least("device.threads", self.threads, 1)
        if not self.hold_threads and self.world_size > 1:
            raise UserError(
                "device.hold_threads=false needs device.world_size=1, since ranks that share their cores "
                "cannot be told from others' work; set device.world_size=1."
            )
        if self.memory_limit_gib is not None:
            above_zero("device.memory_limit_gib", self.memory_limit_gib)
            if self.type == "cuda":
                raise UserError(
                    "device.memory_limit_gib limits CPU ranks only, since CUDA maps more than it uses; "
                    "leave it out."
                )


@dataclass(kw_only=True)
class Precision:
    """Number formats of the matrix products."""

    name: str

    def __post_init__(self) -> None:
        one_of("precision.name", self.name, PRECISIONS)


@dataclass(kw_only=True)
class Config:
    """One comparison: one workload under several backends."""

    model: Model
    backends: dict[str, Backend]
    reference: str
    data: Data
    precision: Precision
    adam: Adam
    measure: Measure
    device: Device
    micro_batch: int
    grad_accum: int
    seq_len: int
    attention: str
    seed: int
    results_dir: str
    reports_dir: str
    resume: bool = False  # go on with an interrupted comparison instead of replacing it

    def __post_init__(self) -> None:
        for name, backend in self.backends.items():
            if not NAME.fullmatch(name):  # it becomes a folder's name
                raise UserError(
                    f"{name!r} cannot be a backend's name; use letters, digits, `_`, `-`, `@` and `.` within."
                )
            one_of(f"backends.{name}.engine", backend.engine, ENGINES)
            one_of(f"backends.{name}.optimizer", backend.optimizer, OPTIMIZERS)
            one_of(f"backends.{name}.sharding", backend.sharding, SHARDINGS)
            at_least(f"backends.{name}.slowed_by", backend.slowed_by, 0)
        one_of("attention", self.attention, ATTENTIONS)
        at_least("micro_batch", self.micro_batch, 1)
        at_least("grad_accum", self.grad_accum, 1)
        at_least("seq_len", self.seq_len, 8)
        at_least("seed", self.seed, 0)
        at_most("seed", self.seed, 2**32 - 1, "seeds are numbers of 32 bits")
        if self.reference not in self.backends:
            raise UserError(
                f"reference={self.reference} is not among the chosen backends "
                f"({', '.join(self.backends) or 'none'}); "
                "add it to backend=[…] or choose another reference."
            )
        if self.device.type == "cuda" and self.measure.resident == "all":
            raise UserError(
                "measure.resident=all works on a CPU only: groups that share a GPU disturb each other; "
                "choose measure.resident=one."
            )
        if self.precision.name == "tf32" and self.device.type == "cpu":
            raise UserError("precision=tf32 exists on CUDA devices only; choose precision=fp32.")
        positions = self.model.positions()
        if positions is not None and self.seq_len > positions:
            raise UserError(
                f"seq_len={self.seq_len} is longer than the {positions} positions of "
                f"model.name={self.model.name}; choose a shorter one."
            )


def measured(config: Config) -> dict[str, Any]:
    """What the configuration says about the thing measured: all but files' places and how long one waits."""
    plain = dataclasses.asdict(config)
    del plain["results_dir"], plain["reports_dir"], plain["resume"]
    for cap in ("timeout_s", "most_launches", "most_seconds"):
        del plain["measure"][cap]
    return plain
