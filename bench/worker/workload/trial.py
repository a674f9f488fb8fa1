"""Tries a model of transformers on a batch before any launch: by its shapes alone, so that it takes moments.

Its weights, and all that is computed of them, are on torch's `meta` device, which has no values. What follows
from the batch alone (ids, masks, positions) is computed, so that every id is held against its embedding.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from bench.config.model import Model
from bench.errors import UserError
from bench.worker.rank.error_words import naming_failure
from bench.worker.sharding import Batch
from bench.worker.workload import model as models
from bench.worker.workload.tasks import Arrays

MOST_PARAMETERS = 50_000_000
"""A larger model whose trial with shapes alone fails, since it reads values, is not tried with values."""


def try_model(
    model: Model, make_arrays: Callable[[Any], Arrays], *, remedy: str, checkpointing: bool = False
) -> list[str]:
    """Build a model, take a micro-batch forward and backward; the names of weights that get no gradient.

    A large model that needs values is only built. UserError with the `remedy` if a batch fails.
    """
    where = f"model.pretrained={model.pretrained}" if model.pretrained else f"model.name={model.name}"
    build = partial(models.build, model, attention="eager", dropout=False, checkpointing=checkpointing)
    with naming_failure(f"building {where} fails", "correct model.config or its config.json"):
        try:
            with without_values():
                built: Any = build()
        except Exception:  # a refusal, which comes again, or code that reads its weights
            built = build()
    is_large = models.parameter_count(built) > MOST_PARAMETERS
    batch = _make_batch(built, make_arrays)
    try:
        if not is_large or all(weight.is_meta for weight in built.parameters()):
            with ShapesAlone(built, batch):
                built(**batch).loss.backward()
            return find_unused(built)
    except UserError:
        raise
    except Exception:
        pass
    if is_large:
        return []
    built = build()
    batch = _make_batch(built, make_arrays)  # which may have changed the other model's configuration
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in batch.items())
    with naming_failure(f"{type(built).__name__} of {where} fails on a batch of {shapes}", remedy):
        built(**batch).loss.backward()
    return find_unused(built)


def _make_batch(built: Any, make_arrays: Callable[[Any], Arrays]) -> Batch:
    arrays = make_arrays(built.config)
    return {name: torch.from_numpy(arrays[name]) for name in models.accepted(built, list(arrays))}


def find_unused(module: torch.nn.Module) -> list[str]:
    """The weights that a backward pass has left without a gradient."""
    return [name for name, one in module.named_parameters() if one.requires_grad and one.grad is None]


@contextmanager
def without_values() -> Iterator[None]:
    """Within it modules get weights on the `meta` device; their buffers, such as positions, have values."""
    register = torch.nn.Module.register_parameter

    def register_shape(module: torch.nn.Module, name: str, weight: torch.nn.Parameter | None) -> None:
        if weight is not None and not weight.is_meta:
            weight = torch.nn.Parameter(weight.to("meta"), requires_grad=weight.requires_grad)
        register(module, name, weight)

    torch.nn.Module.register_parameter = register_shape
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


class ShapesAlone(TorchDispatchMode):
    """Moves to `meta` what meets a tensor there, and refuses ids that their embedding does not have."""

    def __init__(self, module: torch.nn.Module, batch: Batch) -> None:
        super().__init__()
        self.names = {id(weight): name for name, weight in module.named_parameters()}
        self.length = max(value.shape[-1] for value in batch.values())

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run one operator."""
        given = (args, kwargs or {})
        tensors = [value for value in tree_leaves(given) if isinstance(value, torch.Tensor)]
        if operator is torch.ops.aten.embedding.default and not args[1].is_meta and args[1].numel():
            self._check_ids(*args[:2])
        if any(value.is_meta for value in tensors):
            given = tree_map(lambda one: one.to("meta") if isinstance(one, torch.Tensor) else one, given)
        return operator(*given[0], **given[1])

    def _check_ids(self, weight: torch.Tensor, ids: torch.Tensor) -> None:
        highest, last = int(ids.max()), len(weight) - 1
        if highest <= last:
            return
        name = self.names.get(id(weight), "an embedding")
        remedy = f"choose the model's own tokenizer, or set ++model.config.vocab_size={highest + 1}"
        if re.search("type|segment", name):
            remedy = f"set ++model.config.type_vocab_size={highest + 1}, or give it no second text"
        elif re.search("pos|wpe", name):
            more = highest - last
            remedy = f"set seq_len={self.length - more}, or {more} more model.config.max_position_embeddings"
        raise UserError(f"the batch asks for entry {highest} of {name}, whose last is {last}", remedy)
