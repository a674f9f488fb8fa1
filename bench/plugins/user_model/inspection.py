"""Tries a user's module before any launch, in a separate process."""

import torch

from bench.config.model import Model
from bench.errors import UserError
from bench.plugins.user_model.module import check_names, make_batch
from bench.worker.rank.error_words import naming_failure
from bench.worker.sharding import Batch
from bench.worker.workload import model as models
from bench.worker.workload.inspections import FEW
from bench.worker.workload.trial import find_unused


def inspect_module(
    model: Model, *, micro_batch: int, seq_len: int | None, seed: int, device: str, checkpointing: bool
) -> list[str]:
    """Try a module in fp32 without dropout, as every backend will; names of weights without a gradient."""
    torch.manual_seed(seed)
    module = models.build(model, attention="eager", dropout=False, checkpointing=checkpointing).to(device)
    _check_batches(model, micro_batch=micro_batch, seq_len=seq_len, seed=seed)
    batch = make_batch(model, batch_size=min(FEW, micro_batch), seq_len=seq_len, seed=seed)
    check_names(model, module, batch)
    there = {name: value.to(device) for name, value in batch.items()}
    first, second = (_run_passes(module, there, seed=one) for one in (0, 1))
    if not torch.isfinite(first):
        raise UserError(
            f"the loss of example_batch's first samples is {first.item()}, and must be finite",
            "correct the module or the batch",
        )
    if not torch.equal(first, second):
        raise UserError(
            f"model.module={model.module} still draws random numbers with dropout off, and could not be "
            "compared",
            "keep each probability in an nn.Dropout or in an attribute whose name contains drop",
        )
    for name, one in module.named_parameters():
        if one.grad is not None and one.grad.layout != torch.strided:
            raise UserError(
                f"the gradient of {name} is sparse, and backends compare and average dense ones",
                "leave sparse=True out",
            )
    return find_unused(module)


def _check_batches(model: Model, *, micro_batch: int, seq_len: int | None, seed: int) -> None:
    first, again, other = (
        make_batch(model, batch_size=micro_batch, seq_len=seq_len, seed=one) for one in (seed, seed, seed + 1)
    )
    if not _are_equal(first, again):
        raise UserError(
            f"example_batch({micro_batch}, {seed}) gives other values when it is called again",
            "draw them from a generator of its own, torch.Generator().manual_seed(seed)",
        )
    if _are_equal(first, other):
        raise UserError(
            f"example_batch gives the same batch for seed={seed} and seed={seed + 1}", "draw it with the seed"
        )


def _are_equal(one: Batch, other: Batch) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def _run_passes(module: torch.nn.Module, batch: Batch, *, seed: int) -> torch.Tensor:
    """Forward and backward; the loss. Buffers, such as a batch norm's statistics, stay as they are."""
    torch.manual_seed(seed)
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in batch.items())
    with naming_failure(f"forward and loss fail on example_batch's {shapes}"):
        loss: torch.Tensor = module(**batch).loss
    if not loss.requires_grad:
        raise UserError("the loss depends on no parameter that is trained", "compute it from them")
    with naming_failure("the loss's backward pass fails"):
        loss.backward()
    with torch.no_grad():
        for buffer, value in before:
            buffer.copy_(value)
    return loss.detach()
