"""Tries a module of the user's own once, before any launch: builds it, makes batches, takes one step."""

import torch

from bench.config.model import Model
from bench.errors import LaunchFailed
from bench.worker.sharding import Batch
from bench.worker.workload import model as models
from bench.worker.workload import own_module

FEW = 2
"""Samples of the batch that the module is tried with; more are only made."""


def inspect_module(
    model: Model,
    *,
    micro_batch: int,
    seq_len: int | None,
    seed: int,
    device: str,
    ranks: int,
    checkpointing: bool,
) -> None:
    """Raise `LaunchFailed` unless what every backend relies on holds, in fp32 and without dropout."""
    torch.manual_seed(seed)
    module = models.build(model, attention="eager", dropout=False, checkpointing=checkpointing).to(device)
    _check_batches(model, micro_batch=micro_batch, seq_len=seq_len, seed=seed)
    batch = own_module.make_batch(model, batch_size=min(FEW, micro_batch), seq_len=seq_len, seed=seed)
    own_module.check_names(model, module, batch)
    there = {name: value.to(device) for name, value in batch.items()}
    first, second = (_run_passes(module, there, seed=one) for one in (0, 1))
    if not torch.isfinite(first):
        raise LaunchFailed(
            "crashed",
            f"the loss of example_batch's first samples is {first.item()}, and must be finite; correct the "
            "module or the batch",
        )
    if not torch.equal(first, second):
        raise LaunchFailed(
            "crashed",
            f"model.module={model.module} still draws random numbers with dropout off, and could not be "
            "compared; keep each probability in an nn.Dropout or in an attribute whose name contains drop",
        )
    unused = [name for name, one in module.named_parameters() if one.requires_grad and one.grad is None]
    if unused and ranks > 1:
        raise LaunchFailed(
            "crashed",
            f"the loss does not depend on {', '.join(unused[:3])}, for whose gradient several ranks would "
            "wait; remove what is not used, or set its requires_grad to False",
        )


def _check_batches(model: Model, *, micro_batch: int, seq_len: int | None, seed: int) -> None:
    first, again, other = (
        own_module.make_batch(model, batch_size=micro_batch, seq_len=seq_len, seed=one)
        for one in (seed, seed, seed + 1)
    )
    if not _are_equal(first, again):
        raise LaunchFailed(
            "crashed",
            f"example_batch({micro_batch}, {seed}) gives other values when it is called again; draw them "
            "from a generator of its own, torch.Generator().manual_seed(seed)",
        )
    if _are_equal(first, other):
        raise LaunchFailed(
            "crashed",
            f"example_batch gives the same batch for seed={seed} and seed={seed + 1}; draw it with the seed",
        )


def _are_equal(one: Batch, other: Batch) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def _run_passes(module: torch.nn.Module, batch: Batch, *, seed: int) -> torch.Tensor:
    """Forward and backward; the loss. Buffers, such as a batch norm's statistics, stay as they are."""
    torch.manual_seed(seed)
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in batch.items())
    with own_module.naming_failure(f"forward and loss fail on example_batch's {shapes}"):
        loss: torch.Tensor = module(**batch).loss
    if not loss.requires_grad:
        raise LaunchFailed(
            "crashed", "the loss depends on no parameter that is trained; compute it from them"
        )
    with own_module.naming_failure("the loss's backward pass fails"):
        loss.backward()
    with torch.no_grad():
        for buffer, value in before:
            buffer.copy_(value)
    return loss.detach()
