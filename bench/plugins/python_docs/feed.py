"""A rank's micro-batches: windows of the text that Python ships, shuffled anew in every epoch."""

from functools import partial

import torch

from bench.launch.spec import WorkerSpec
from bench.plugins.python_docs import text
from bench.worker.workload import model as models
from bench.worker.workload.feeds import ReadyFeed, tensors
from bench.worker.workload.order import Order


def make(spec: WorkerSpec, model: torch.nn.Module, *, rank: int, world_size: int, pinned: bool) -> ReadyFeed:
    """The feed of these windows."""
    assert spec.seq_len is not None, "its tasks have lengths; `check` sees to it"
    training, _ = text.split()
    samples = text.cut(training, spec.seq_len)
    order = Order(
        len(samples), micro_batch=spec.micro_batch, rank=rank, world_size=world_size, seed=spec.seed
    )
    stream = partial(text.training_batches, samples, order, task=spec.model.task)
    names = models.accepted(model, list(next(stream())))
    return ReadyFeed(
        lambda: (tensors(arrays, names, pinned=pinned) for arrays in stream()),
        distinct=order.per_epoch,
        grad_accum=spec.grad_accum,
        padding_share=0.0,
    )
