"""The typed configuration: what `conf/` composes into, checked once, before any work starts.

Every dataclass refuses what is impossible in itself and names the dotted key; `Config` refuses what its
parts make of each other, `machine` what this machine cannot do. Nothing here knows of Hydra: `compose`
makes a `Config` out of a command line.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from bench.errors import UserError
from bench.setup.bootstrap import STACKS

ENGINES = ("eager", "ortmodule", "compile")
OPTIMIZERS = ("adamw", "adamw_foreach", "adamw_fused", "ort_fused_adam", "deepspeed_cpu_adam")
SHARDINGS = (
    "ddp",
    "zero_redundancy",
    "zero1",
    "zero2",
    "zero3",
    "zero2_offload",
    "zero3_offload",
    "fsdp2",
)
DEEPSPEED = ("zero1", "zero2", "zero3", "zero2_offload", "zero3_offload")
OFFLOADED = ("zero2_offload", "zero3_offload")
"""Shardings under which the host holds the optimizer's states and takes its step."""

WITHOUT_WHOLE_WEIGHTS = ("zero3", "zero3_offload", "fsdp2")
"""Shardings under which a rank has a layer's weights only while it computes that layer."""

TASKS = (
    "masked-lm",
    "causal-lm",
    "sequence-classification",
    "token-classification",
    "question-answering",
    "translation",
    "image-classification",
    "speech-recognition",
)
"""Each has its module in bench/workload/tasks."""

WITHOUT_LENGTH = ("image-classification",)
"""Tasks whose samples have no sequence length."""

ATTENTIONS = ("eager", "sdpa", "flash_attention_2")
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
AUTOCAST = ("bf16", "fp16")
"""Precisions in which the matrix products run in 16 bits and the weights stay in 32."""

LOSS_TOLERANCE = {"fp32": 1e-4, "tf32": 1e-3, "fp16": 5e-3, "bf16": 2e-2}
"""Relative, on the loss of every step, by precision: what rounding may do, with 24, 11, 11 and 8 significant
bits. The default of measure.parity_tolerance."""

SIZES = ("published", "mini")
SOURCES = ("synthetic", "hf")
LENGTHS = ("full", "uniform", "sst2", "squad")
BATCHES = ("equal", "max")
DEVICES = ("cpu", "cuda")
ALLOCATORS = ("tuned", "system")
RESIDENTS = ("all", "one")

MEETING = ("rdzv_endpoint", "rdzv_timeout_s", "rejoin_timeout_s")
"""Settings of `device` about how nodes meet, which change nothing that is measured."""

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

MOST_SCALE = 2**40
"""The largest loss scale to begin with: 40 halvings above 1, and bench.worker.training allows 64 in a row."""


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
class Lora:
    """Low-rank adapters (Hu et al. 2021, arXiv:2106.09685), the rest of the model frozen."""

    rank: int
    alpha: float
    dropout: float
    modules: list[str]  # names of the linear layers that get one

    def __post_init__(self) -> None:
        at_least("model.lora.rank", self.rank, 1)
        above_zero("model.lora.alpha", self.alpha)
        if not 0 <= self.dropout < 1:
            raise UserError(f"model.lora.dropout must be at least 0 and below 1, not {self.dropout}.")
        if not self.modules:
            raise UserError("model.lora.modules names no layer; name at least one, such as q_proj.")


@dataclass(kw_only=True)
class Model:
    """A published architecture, built from its configuration without a download."""

    name: str
    task: str
    architecture: str  # transformers' model_type, e.g. "bert"
    config: dict[str, Any]  # what differs from the architecture's default configuration
    parameters: int  # of the published size, head included, tied weights counted once; adapters not counted
    source: str  # where the dimensions were published
    micro_batch: int  # per rank, as published or customary
    seq_len: int | None  # null where a sample has none: images
    longest: int | None = None  # tokens, where the model takes fewer than it has positions: RoBERTa
    size: str = "published"  # mini: shrunk by the rule of bench.config.mini, for small machines
    lora: Lora | None = None  # train adapters only
    pretrained: str | None = None  # a hub id or a folder; random weights from `config` when None

    def __post_init__(self) -> None:
        one_of("model.task", self.task, TASKS)
        one_of("model.size", self.size, SIZES)
        at_least("model.parameters", self.parameters, 1)
        if self.pretrained is not None and self.size == "mini":
            raise UserError(
                "model.size=mini shrinks a model that is built from its configuration, and "
                f"model.pretrained={self.pretrained} has the size of its weights; leave one of them out."
            )

    def positions(self) -> int | None:
        """The longest sequence that the position embeddings allow, where `config` tells."""
        if self.longest is not None:
            return self.longest
        keys = ("max_position_embeddings", "n_positions", "max_target_positions")
        return next((self.config[key] for key in keys if key in self.config), None)


@dataclass(kw_only=True)
class Backend:
    """Three independent choices, on a stack; a backend is data. `Config`, which knows its name, checks it."""

    engine: str
    optimizer: str
    sharding: str
    stack: str | None = None  # whose interpreter its ranks run on; that of the comparison if null
    attention: str | None = None  # another than the comparison's, if that is the point of it
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
    """Where the batches come from: made from a seed, or a dataset through the model's own preprocessing.

    Samples are padded to `seq_len` alike for all backends, since ORTModule wants one shape.
    """

    name: str
    # synthetic
    batches: int = 8  # distinct micro-batches per rank, cycled through
    lengths: str = "uniform"  # how long samples are without their padding: bench.worker.workload.lengths
    min_length_share: float = 0.5  # of lengths=uniform: from this share of seq_len to all of it
    # hf
    path: str | None = None  # a local folder or a hub id
    subset: str | None = None  # of a hub id that has several
    split: str = "train"
    columns: dict[str, str] = field(default_factory=dict)  # the task's name of a column: the dataset's
    processor: str | None = None  # tokenizer, image or speech processor: a folder or hub id
    workers: int = 0  # processes per rank that prepare batches; 0: the rank does it itself
    pinned_memory: bool = True  # on CUDA: batches wait in memory that the device reads by itself

    def __post_init__(self) -> None:
        one_of("data.name", self.name, SOURCES)
        one_of("data.lengths", self.lengths, LENGTHS)
        at_least("data.batches", self.batches, 2)
        at_least("data.workers", self.workers, 0)
        at_most("data.workers", self.workers, 64, "each is a process per rank")
        if not 0 < self.min_length_share <= 1:
            raise UserError(
                f"data.min_length_share must be above 0 and at most 1, not {self.min_length_share}."
            )
        if self.name == "hf" and self.path is None:
            raise UserError("data=hf needs a dataset; set data.path=… to a folder or a hub id.")
        if self.name == "hf" and self.processor is None:
            raise UserError(
                "data=hf needs the model's tokenizer or processor, and there is no model.pretrained to take "
                "it from; set data.processor=… to a folder or a hub id."
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

    launches: int  # 0: parity alone, nothing is timed
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
    batch: str = "equal"  # max: each backend at the largest micro-batch that fits
    most_trials: int = 12  # launches that the search for it may take, of each backend

    def __post_init__(self) -> None:
        one_of("measure.batch", self.batch, BATCHES)
        at_least("measure.most_trials", self.most_trials, 2)
        one_of("measure.resident", self.resident, RESIDENTS)
        at_least("measure.launches", self.launches, 0)
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
        if not self.launches and (self.until is not None or self.batch == "max"):
            key = "until" if self.until is not None else "batch=max"
            raise UserError(
                f"measure.{key} needs launches that are timed, and measure.launches=0 has none; "
                "leave one of them out."
            )
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
    world_size: int  # ranks, on all nodes together
    threads: int  # per rank
    # Each rank keeps to `threads` cores of its own, and the engine to as many threads. If false, nothing is
    # held but what torchrun holds: an engine that ignores OMP_NUM_THREADS takes what it likes.
    hold_threads: bool
    allocator: str  # tuned: the same glibc malloc settings for all workers; system: glibc's defaults
    # of a backend's private memory on the host, shared equally by its ranks; none if null
    memory_limit_gib: float | None = None
    nnodes: int = 1  # machines, with equally many ranks each
    rdzv_endpoint: str | None = None  # host:port of this machine, at which the others report
    rdzv_timeout_s: float = 300  # how long to wait for them before anything starts
    rejoin_timeout_s: float = 30  # and between launches for one that was lost

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
        self._check_nodes()

    def _check_nodes(self) -> None:
        at_least("device.nnodes", self.nnodes, 1)
        above_zero("device.rdzv_timeout_s", self.rdzv_timeout_s)
        at_least("device.rejoin_timeout_s", self.rejoin_timeout_s, 0)
        if self.world_size % self.nnodes:
            fewer = self.world_size // self.nnodes * self.nnodes
            raise UserError(
                f"device.world_size={self.world_size} cannot be shared equally by "
                f"device.nnodes={self.nnodes}; set device.world_size={fewer or self.nnodes}."
            )
        if self.nnodes > 1 and self.rdzv_endpoint is None:
            raise UserError(
                f"device.nnodes={self.nnodes} needs a place at which the other nodes find this one; "
                "set device.rdzv_endpoint=HOST:PORT to this machine's name or address and a free port."
            )
        if self.nnodes == 1 and self.rdzv_endpoint is not None:
            raise UserError(
                f"device.rdzv_endpoint={self.rdzv_endpoint} has no meaning on one node; leave it out, or set "
                "device.nnodes=…."
            )
        if self.rdzv_endpoint is not None:
            try:
                host_and_port(self.rdzv_endpoint)
            except ValueError as error:
                raise UserError(f"device.rdzv_endpoint={self.rdzv_endpoint} {error}.") from None

    @property
    def ranks_per_node(self) -> int:
        """Ranks on each node."""
        return self.world_size // self.nnodes


def host_and_port(endpoint: str) -> tuple[str, int]:
    """The parts of `HOST:PORT`.

    Raises:
        ValueError: it is none; the message goes on from "… ".
    """
    host, _, port = endpoint.rpartition(":")
    if not re.fullmatch(r"[\w.-]+", host) or not re.fullmatch(r"\d{1,5}", port, re.ASCII):
        raise ValueError("is not HOST:PORT, such as node0:29400 or 10.0.0.1:29400")
    if not 0 < int(port) < 2**16:
        raise ValueError("has no possible port; choose one from 1024 to 65535")
    return host, int(port)


@dataclass(kw_only=True)
class Precision:
    """Number formats of the matrix products; weights, gradients and optimizer states are fp32."""

    name: str
    # fp16: the loss is multiplied by a scale that halves when a gradient overflows (that step is skipped)
    # and doubles after `growth_steps` steps without (Micikevicius et al. 2017, arXiv:1710.03740, 3.2)
    initial_scale: float | None = None
    growth_steps: int | None = None

    def __post_init__(self) -> None:
        one_of("precision.name", self.name, PRECISIONS)
        scaled = self.name == "fp16"
        for key in ("initial_scale", "growth_steps"):
            value = getattr(self, key)
            if (value is not None) != scaled:
                raise UserError(
                    f"precision.{key} scales the loss of fp16 alone; "
                    + (f"set precision.{key}=…." if scaled else f"set precision.{key}=null.")
                )
            if value is not None:
                at_least(f"precision.{key}", value, 1)
        if self.initial_scale is not None and self.initial_scale > MOST_SCALE:
            raise UserError(
                f"precision.initial_scale must be at most {MOST_SCALE}, not {self.initial_scale:g}: "
                "fp16 ends at 65504, and every halving costs a step."
            )


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
    seq_len: int | None
    attention: str
    checkpointing: bool
    seed: int
    results_dir: str
    reports_dir: str
    resume: bool = False  # go on with an interrupted comparison instead of replacing it
    label: str | None = None  # a part of the file's name, to keep what another machine measured beside it

    def __post_init__(self) -> None:
        for name, backend in self.backends.items():
            if not NAME.fullmatch(name):  # it becomes a folder's name
                raise UserError(
                    f"{name!r} cannot be a backend's name; use letters, digits, `_`, `-`, `@` and `.` within."
                )
            one_of(f"backends.{name}.engine", backend.engine, ENGINES)
            one_of(f"backends.{name}.optimizer", backend.optimizer, OPTIMIZERS)
            one_of(f"backends.{name}.sharding", backend.sharding, SHARDINGS)
            if backend.attention is not None:
                one_of(f"backends.{name}.attention", backend.attention, ATTENTIONS)
            if backend.stack is not None:
                one_of(f"backends.{name}.stack", backend.stack, tuple(STACKS))
            if backend.engine == "ortmodule" and backend.sharding in WITHOUT_WHOLE_WEIGHTS:
                raise UserError(
                    f"backends.{name}.sharding={backend.sharding} cannot be combined with engine=ortmodule, "
                    "which runs the model as one graph and needs all of its weights at a time; "
                    "choose zero1 or zero2."
                )
            self._check_offload(name, backend)
            at_least(f"backends.{name}.slowed_by", backend.slowed_by, 0)
        one_of("attention", self.attention, ATTENTIONS)
        at_least("micro_batch", self.micro_batch, 1)
        at_least("grad_accum", self.grad_accum, 1)
        self._check_length()
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
        if self.measure.batch == "max" and self.device.type == "cpu" and self.device.memory_limit_gib is None:
            raise UserError(
                "measure.batch=max on a CPU needs device.memory_limit_gib=…, since a machine without a limit "
                "gets slow before its memory ends; set it."
            )
        self._check_precision()

    def attention_of(self, name: str) -> str:
        """The attention of a backend."""
        return self.backends[name].attention or self.attention

    def _check_offload(self, name: str, backend: Backend) -> None:
        """An optimizer steps where its states are."""
        if self.device.type == "cpu":
            return
        offloaded = backend.sharding in OFFLOADED
        if offloaded and backend.optimizer == "ort_fused_adam":
            raise UserError(
                f"backends.{name}.optimizer=ort_fused_adam has CUDA kernels only, and with "
                f"sharding={backend.sharding} the host takes the step; choose deepspeed_cpu_adam."
            )
        if not offloaded and backend.optimizer == "deepspeed_cpu_adam":
            raise UserError(
                f"backends.{name}.optimizer=deepspeed_cpu_adam steps on the host, and with "
                f"sharding={backend.sharding} the states are on the GPU; choose one of "
                f"{', '.join(OFFLOADED)}, or another optimizer."
            )

    def _check_length(self) -> None:
        without = self.model.task in WITHOUT_LENGTH
        if self.seq_len is None:
            if not without:
                raise UserError(f"seq_len must have a value, since model.task={self.model.task} has lengths.")
            return
        if without:
            raise UserError(
                f"seq_len={self.seq_len} has no meaning for model.task={self.model.task}; set seq_len=null."
            )
        at_least("seq_len", self.seq_len, 8)
        positions = self.model.positions()
        if positions is not None and self.seq_len > positions:
            raise UserError(
                f"seq_len={self.seq_len} is longer than the {positions} positions of "
                f"model.name={self.model.name}; choose a shorter one."
            )

    def _check_precision(self) -> None:
        """Refuse what no kernel can do; bf16 is shown to be so by tests/test_precision.py.

        What depends on the GPU at hand, bench.worker.workload.precision refuses before there is a model.
        """
        precision = self.precision.name
        if precision == "tf32" and self.device.type == "cpu":
            raise UserError("precision=tf32 exists on CUDA devices only; choose precision=fp32.")
        if precision == "bf16" and self.device.type == "cpu":
            for name, backend in self.backends.items():
                if backend.engine == "ortmodule":
                    raise UserError(
                        f"backends.{name} cannot run precision=bf16 on a CPU, since ONNX Runtime 1.19.2 has "
                        "no such matrix product there; choose precision=fp16, or backends without ONNX "
                        "Runtime: backend=[pytorch,pytorch_zero1]."
                    )
        attentions = {self.attention, *(self.attention_of(name) for name in self.backends)}
        if "flash_attention_2" in attentions and (self.device.type == "cpu" or precision not in AUTOCAST):
            raise UserError(
                "attention=flash_attention_2 exists on CUDA devices in 16 bits only; "
                "choose attention=sdpa, or device=cuda with precision=bf16."
            )


def global_batch(micro_batch: int, grad_accum: int, world_size: int) -> int:
    """Samples per optimizer step, over all data-parallel ranks."""
    return micro_batch * grad_accum * world_size
