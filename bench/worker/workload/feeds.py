"""Where a rank's micro-batches come from, and what every source of them offers."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from bench.config.data import SYNTHETIC
from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.study import load_plugin
from bench.worker.sharding import Batch
from bench.worker.workload import model as models
from bench.worker.workload.synthetic import padding_share, synthetic
from bench.worker.workload.tasks import Arrays

T = TypeVar("T")


class Feed(Protocol):
    """A rank's micro-batches: a seed gives the same ones in the same order under every backend."""

    padding_share: float | None  # padded positions / all positions; None where samples have no length
    distinct: int  # micro-batches, or those of the first epoch; a micro-batch's number counts from 0

    def steps(self, count: int) -> Iterable[list[Batch]]:
        """The micro-batches of the next `count` steps."""

    def make(self, numbers: Sequence[int]) -> Iterable[list[Batch]]:
        """The micro-batches of these numbers, each in the parts that it is trained in."""

    def repeat(self, numbers: Sequence[int]) -> None:
        """From now on cycle through the micro-batches of these numbers only."""

    def waited(self) -> float | None:
        """Seconds that the last `steps` waited for batches; None if all were made beforehand."""


class ReadyFeed(Feed):
    """Has a step's micro-batches before it begins; `stream` begins the endless stream, the same each time."""

    def __init__(
        self,
        stream: Callable[[], Iterator[Batch]],
        *,
        distinct: int,
        grad_accum: int,
        padding_share: float | None,
    ) -> None:
        self.distinct, self.padding_share = distinct, padding_share
        self._stream = stream
        self._grad_accum = grad_accum
        self._next = stream()

    def steps(self, count: int) -> list[list[Batch]]:
        """The micro-batches of all steps at once."""
        return [[next(self._next) for _ in range(self._grad_accum)] for _ in range(count)]

    def make(self, numbers: Sequence[int]) -> list[list[Batch]]:
        """All these micro-batches at once, each in one part."""
        return [[batch] for batch in picked(self._stream(), numbers)]

    def repeat(self, numbers: Sequence[int]) -> None:
        """Make these micro-batches again, and cycle through them."""
        self._next = itertools.cycle(picked(self._stream(), numbers))

    def waited(self) -> None:
        """Return None: nothing waits for batches that were made beforehand."""


def picked(stream: Iterable[T], numbers: Sequence[int]) -> list[T]:
    """The items of a stream at these places, counted from 0."""
    there = dict(zip(range(max(numbers) + 1), stream, strict=False))
    return [there[number] for number in numbers]


def tensors(batch: Arrays, names: list[str], *, pinned: bool) -> Batch:
    """The inputs of these names, pinned where a device will read them."""
    made = {name: torch.from_numpy(batch[name]) for name in names}
    return {name: tensor.pin_memory() if pinned else tensor for name, tensor in made.items()}


def make(spec: WorkerSpec, model: torch.nn.Module, *, rank: int, world_size: int, pinned: bool) -> Feed:
    """The feed that `spec.data` asks for, of the inputs that the model's forward takes."""
    if spec.accumulate > 1:
        named = model.named_modules()
        if (first := next((name for name, one in named if isinstance(one, _BatchNorm)), None)) is not None:
            raise LaunchFailed(
                "unsupported",
                f"accumulate={spec.accumulate} trains another model: the batch norm {first} normalises over "
                "a whole micro-batch, and would over a part of it; use grad_accum, which is the same for all "
                "backends",
            )
        as_the_others = dataclasses.replace(spec, accumulate=1)
        whole = make(as_the_others, model, rank=rank, world_size=world_size, pinned=pinned)
        return InParts(whole, spec.accumulate)
    if spec.data.name == SYNTHETIC:
        return _make_ready(spec, model, rank=rank, pinned=pinned)
    source = load_plugin(f"{spec.data.name}.feed")
    made: Feed = source.make(spec, model, rank=rank, world_size=world_size, pinned=pinned)
    return made


def _make_ready(spec: WorkerSpec, model: torch.nn.Module, *, rank: int, pinned: bool) -> Feed:
    # The parity check takes two optimizer steps' worth of distinct micro-batches in turn.
    count = max(spec.data.batches, 2 * spec.grad_accum)
    share = None
    if spec.model.module is not None:
        plugin = load_plugin("user_model.module")
        batches = plugin.make_batches(spec, count=count, rank=rank, pinned=pinned)
        plugin.name_inputs(model, batches[0])
    else:
        host = synthetic(
            spec.data,
            task=spec.model.task,
            settings=model.config,
            count=count,
            micro_batch=spec.micro_batch,
            seq_len=spec.seq_len,
            seed=spec.seed,
            rank=rank,
        )
        names = models.accepted(model, list(host[0]))
        batches = [tensors(batch, names, pinned=pinned) for batch in host]
        share = padding_share(host)
    stream = partial(itertools.cycle, batches)
    return ReadyFeed(stream, distinct=count, grad_accum=spec.grad_accum, padding_share=share)


class InParts(Feed):
    """The micro-batches of another feed, each divided into `parts`: every step has the same samples."""

    def __init__(self, whole: Feed, parts: int) -> None:
        self.whole = whole
        self.parts = parts
        self.distinct, self.padding_share = whole.distinct, whole.padding_share

    def steps(self, count: int) -> Iterable[list[Batch]]:
        """Batches made beforehand are divided beforehand, so that a block makes none."""
        steps = self.whole.steps(count)
        divided = ([part for batch in step for part in divide(batch, self.parts)] for step in steps)
        return list(divided) if isinstance(steps, list) else divided

    def make(self, numbers: Sequence[int]) -> Iterable[list[Batch]]:
        """The other feed's micro-batches, divided."""
        return (divide(batch, self.parts) for (batch,) in self.whole.make(numbers))

    def repeat(self, numbers: Sequence[int]) -> None:
        """Cycle through those of the other feed."""
        self.whole.repeat(numbers)

    def waited(self) -> float | None:
        """The seconds that the other feed waited."""
        return self.whole.waited()


def divide(batch: Batch, parts: int) -> list[Batch]:
    """The samples of a batch in `parts` batches of equal size, as views."""
    pieces = {name: tensor.tensor_split(parts) for name, tensor in batch.items()}
    return [{name: piece[number] for name, piece in pieces.items()} for number in range(parts)]
