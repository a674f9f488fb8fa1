"""Chooses where a rank's micro-batches come from, makes the synthetic ones, and divides them into parts."""

import dataclasses
import itertools
from collections.abc import Iterable

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from bench.config import python_docs
from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.worker.workload import model as models
from bench.worker.workload import own_module
from bench.worker.workload.feed import Batch, Feed, ReadyFeed, tensors
from bench.worker.workload.order import Order
from bench.worker.workload.synthetic import padding_share, synthetic
from bench.worker.workload.text_windows import TextBatches


def make(spec: WorkerSpec, model: torch.nn.Module, *, rank: int, world_size: int, pinned: bool) -> Feed:
    """The feed that `spec.data` asks for, of the inputs that the model's forward takes.

    Raises:
        LaunchFailed: status `unsupported`, if micro-batches in parts would make another model of this one.
    """
    if spec.accumulate > 1:
        _refuse_batch_norm(model, spec.accumulate)
        as_the_others = dataclasses.replace(
            spec,
            micro_batch=spec.micro_batch * spec.accumulate,
            grad_accum=spec.grad_accum // spec.accumulate,
            accumulate=1,
        )
        whole = make(as_the_others, model, rank=rank, world_size=world_size, pinned=pinned)
        return InParts(whole, spec.accumulate)
    if spec.data.name == "hf":
        from bench.worker.workload.loader import Loader  # imports `datasets`, which others do not need

        return Loader(spec, model, rank=rank, world_size=world_size, pinned=pinned)
    if spec.data.name == python_docs.NAME:
        return _make_windows(spec, model, rank=rank, world_size=world_size, pinned=pinned)
    return _make_ready(spec, model, rank=rank, pinned=pinned)


def _make_ready(spec: WorkerSpec, model: torch.nn.Module, *, rank: int, pinned: bool) -> Feed:
    """Distinct random micro-batches, made once and cycled through."""
    # The parity check takes two optimizer steps' worth of distinct micro-batches in turn.
    count = max(spec.data.batches, 2 * spec.grad_accum)
    if spec.model.module is not None:
        own = own_module.make_batches(spec, count=count, rank=rank, pinned=pinned)
        own_module.name_inputs(model, own[0])
        return ReadyFeed(lambda: itertools.cycle(own), grad_accum=spec.grad_accum, padding_share=None)
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
    return ReadyFeed(
        lambda: itertools.cycle(batches), grad_accum=spec.grad_accum, padding_share=padding_share(host)
    )


def _make_windows(
    spec: WorkerSpec, model: torch.nn.Module, *, rank: int, world_size: int, pinned: bool
) -> Feed:
    """Windows of the text that Python ships, shuffled anew in every epoch."""
    assert spec.seq_len is not None, "its tasks have lengths; bench.measure.plan.preflight_dataset sees to it"
    batches = TextBatches(seq_len=spec.seq_len, task=spec.model.task, seed=spec.seed, rank=rank)
    order = Order(
        len(batches.windows), micro_batch=spec.micro_batch, rank=rank, world_size=world_size, seed=spec.seed
    )
    names = models.accepted(model, list(batches.arrays(next(iter(order)))))
    return ReadyFeed(
        lambda: (tensors(batches.arrays(draw), names, pinned=pinned) for draw in order),
        grad_accum=spec.grad_accum,
        padding_share=0.0,
    )


def _refuse_batch_norm(model: torch.nn.Module, parts: int) -> None:
    names = (name for name, one in model.named_modules() if isinstance(one, _BatchNorm))
    if (first := next(names, None)) is not None:
        raise LaunchFailed(
            "unsupported",
            f"accumulate={parts} trains another model: the batch norm {first} normalises over a whole "
            "micro-batch, and would over a part of it; use grad_accum, which is the same for all backends",
        )


class InParts(Feed):
    """The micro-batches of another feed, each divided into so many: every step has the same samples."""

    def __init__(self, whole: Feed, parts: int) -> None:
        self.whole = whole
        self.parts = parts
        self.padding_share = whole.padding_share

    def steps(self, count: int) -> Iterable[list[Batch]]:
        """What is there beforehand is divided beforehand, so that nothing is made inside a block."""
        steps = self.whole.steps(count)
        divided = map(self._divide_step, steps)
        return list(divided) if isinstance(steps, list) else divided

    def _divide_step(self, micro_batches: list[Batch]) -> list[Batch]:
        return [part for batch in micro_batches for part in divide(batch, self.parts)]

    def repeat_first(self, count: int) -> None:
        """Cycle through the first `count` of the other feed's."""
        self.whole.repeat_first(count)

    def waited(self) -> float | None:
        """What the other feed waited."""
        return self.whole.waited()


def divide(batch: Batch, parts: int) -> list[Batch]:
    """The samples of a batch in so many batches of equal size, as views."""
    pieces = {name: tensor.tensor_split(parts) for name, tensor in batch.items()}
    return [{name: piece[number] for name, piece in pieces.items()} for number in range(parts)]
