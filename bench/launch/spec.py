"""What a worker needs to know when it starts: everything, in one JSON file."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.config.data import Data
from bench.config.model import Model
from bench.config.training import GROWTH_STEPS, INITIAL_SCALE, Adam, Precision
from bench.results.atomic import write_atomically


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """One worker group: the same for all its ranks."""

    backend: str
    engine: str
    engine_options: dict[str, bool | int | str]
    optimizer: str  # resolved for the device
    sharding: str
    loop: str  # bare, or one of bench/worker/loops/
    slowed_by: float  # share of its time that every step waits
    model: Model
    data: Data
    adam: Adam
    precision: Precision
    attention: str
    checkpointing: bool
    micro_batch: int  # samples of each rank, as the comparison has it; so is the next
    grad_accum: int
    accumulate: int  # parts that each of these micro-batches is trained in
    seq_len: int | None
    seed: int
    dropout: bool
    device: str
    device_uuids: tuple[str, ...]  # by local rank; empty on a CPU
    threads: int
    pins_cores: bool  # the engine keeps to `threads`
    cores: tuple[tuple[int, ...], ...]  # by local rank
    blas: str  # which path MKL must prove to take
    memory_limit_bytes: int | None  # of each rank's private memory; None: on a CPU, what is left
    initial_state: str  # safetensors file that every rank loads
    saves_initial_state: bool  # this group's rank 0 writes it first
    expected_tensors: str  # folder of what plain PyTorch computes, for rank 0 of a parity launch
    groups: int = 1  # that live side by side, this one included
    without_gradient: tuple[str, ...] = ()  # weights that no rank may wait for
    profiled_groups: int = 0  # that live side by side, this one included; of them nothing is timed
    initial_scale: float = INITIAL_SCALE  # of the loss in fp16
    growth_steps: int = GROWTH_STEPS  # without an overflow, after which that scale doubles
    nnodes: int = 1  # with several, rank 0 alone has that file, and sends its content to the others

    @property
    def passes(self) -> int:
        """Forward and backward passes of a step."""
        return self.grad_accum * self.accumulate

    @property
    def samples_per_pass(self) -> int:
        """Samples of a rank in each of them."""
        return self.micro_batch // self.accumulate

    @property
    def scales_loss(self) -> bool:
        """Whether small gradients would vanish in this precision if the loss were not scaled."""
        return self.precision.name == "fp16"

    def save(self, path: Path) -> None:
        """Write the spec as JSON."""
        write_atomically(path, msgspec.json.format(msgspec.json.encode(self), indent=1).decode())

    @classmethod
    def load(cls, path: Path) -> "WorkerSpec":
        """Read what `save` wrote."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
