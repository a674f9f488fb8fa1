"""`python -m bench.worker.workload.inspections FUNCTION PARENT_PID SPEC.json`: inspect what the user gives.

It runs before any launch, in a separate process, and ends with status 2 after one sentence on stdout if the
user has something to correct.
"""

import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from bench.config.data import Data
from bench.config.model import Model
from bench.errors import UserError
from bench.launch.lifeline import die_with
from bench.machine.telemetry.host_memory import limit_to_available
from bench.worker.rank.error_words import in_a_line, status_of
from bench.worker.sharding import Batch
from bench.worker.workload import model as models
from bench.worker.workload import own_module
from bench.worker.workload.synthetic import synthetic
from bench.worker.workload.tasks import Arrays
from bench.worker.workload.trial import find_unused, try_model

LOOKED_AT = 2000
"""Images or sounds that are opened, evenly spread over the dataset; a damaged one beyond them ends the launch
that meets it, with the same sentence. Text is tokenized as a whole, so all of it is checked."""

AT_ONCE = 16  # samples held in memory at a time
FEW = 2  # samples of the batch that a user's module is tried with; larger batches are only made


def inspect_model(model: Model, *, seq_len: int | None, checkpointing: bool = False) -> list[str]:
    """Try a model on a random batch without padding; the names of weights that get no gradient."""

    def make(settings: Any) -> Arrays:
        data = Data(name="synthetic", lengths="full")
        made = partial(synthetic, data, task=model.task, settings=settings, count=1, seed=0, rank=0)
        return made(micro_batch=FEW, seq_len=seq_len)[0]

    remedy = "correct model.config" + (" or seq_len" if seq_len else "")
    return try_model(model, make, remedy=remedy, checkpointing=checkpointing)


def inspect_dataset(
    model: Model, data: Data, *, seq_len: int | None, global_batch: int, checkpointing: bool = False
) -> list[str]:
    """Prepare the dataset, check it, and try the model on its highest ids and longest text."""

    def make(settings: Any) -> Arrays:
        prepared = prepare_dataset(model, data, settings=settings, seq_len=seq_len, global_batch=global_batch)
        return prepared.batch(prepared.extremes(), np.random.default_rng(0))

    remedy = "choose the model's own tokenizer or processor, or correct model.config"
    return try_model(model, make, remedy=remedy, checkpointing=checkpointing)


def prepare_dataset(
    model: Model, data: Data, *, settings: Any, seq_len: int | None, global_batch: int
) -> Any:
    """Prepare the dataset, whose tokens the ranks then find in the cache of `datasets`, and open samples."""
    from bench.worker.workload import preparation  # imports `datasets`, which others do not need

    prepared = preparation.prepare(data, model, settings=settings, seq_len=seq_len, global_batch=global_batch)
    count = len(prepared.samples)
    numbers = np.unique(np.linspace(0, count - 1, num=min(count, LOOKED_AT)).astype(int)).tolist()
    random = np.random.default_rng(0)
    for start in range(0, len(numbers), AT_ONCE):
        prepared.batch(numbers[start : start + AT_ONCE], random)
    return prepared


def inspect_module(
    model: Model,
    *,
    micro_batch: int,
    seq_len: int | None,
    seed: int,
    device: str,
    checkpointing: bool,
) -> list[str]:
    """Try a user's module once: every backend relies on this in fp32 and without dropout.

    Returns the names of weights that get no gradient.
    """
    torch.manual_seed(seed)
    module = models.build(model, attention="eager", dropout=False, checkpointing=checkpointing).to(device)
    _check_batches(model, micro_batch=micro_batch, seq_len=seq_len, seed=seed)
    batch = own_module.make_batch(model, batch_size=min(FEW, micro_batch), seq_len=seq_len, seed=seed)
    own_module.check_names(model, module, batch)
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
        own_module.make_batch(model, batch_size=micro_batch, seq_len=seq_len, seed=one)
        for one in (seed, seed, seed + 1)
    )
    if not _are_equal(first, again):
        raise UserError(
            f"example_batch({micro_batch}, {seed}) gives other values when it is called again",
            "draw them from a separate generator, torch.Generator().manual_seed(seed)",
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
    with own_module.naming_failure(f"forward and loss fail on example_batch's {shapes}"):
        loss: torch.Tensor = module(**batch).loss
    if not loss.requires_grad:
        raise UserError("the loss depends on no parameter that is trained", "compute it from them")
    with own_module.naming_failure("the loss's backward pass fails"):
        loss.backward()
    with torch.no_grad():
        for buffer, value in before:
            buffer.copy_(value)
    return loss.detach()


FUNCTIONS = {one.__name__: one for one in (inspect_model, inspect_dataset, inspect_module)}


def main() -> None:
    """Inspect what a file describes, and end this process."""
    function, parent, spec_path = sys.argv[1:]
    die_with(int(parent))
    spec = json.loads(Path(spec_path).read_text(encoding="utf-8"))
    spec["model"] = msgspec.convert(spec["model"], Model)
    if "data" in spec:
        spec["data"] = Data(**spec["data"])
    status, room = 0, 0.0
    if spec.get("device") != "cuda":  # which maps more than it uses
        room = limit_to_available(1)
    try:
        print(json.dumps(FUNCTIONS[function](**spec)))
    except Exception as error:
        if (kind := status_of(error)) is None:
            raise
        traceback.print_exc()
        sentence = " ".join(in_a_line(error).split())
        if kind == "oom":
            sentence = f"{room:.1f} GiB are left, and do not suffice to try it; choose a smaller micro_batch"
        print(sentence if sentence.endswith("?") else f"{sentence.rstrip('.')}.")
        status = 2
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # as a rank does: tearing frameworks down takes long and can fail


if __name__ == "__main__":
    main()
