"""The user's torch module: built from the user's file, fed, and made to return its loss.

The file has a class or function that builds the module from `model.config`, `example_batch(batch_size, seed)`
in the file or in the class, and `loss(output, batch)` unless forward returns the loss itself.
"""

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from transformers.utils import ModelOutput

from bench.config.model import Model
from bench.errors import UserError, did_you_mean
from bench.launch.spec import WorkerSpec
from bench.plugins.user_model.file import find_file, keep_bytecode_of, names_file
from bench.worker.rank.error_words import naming_failure
from bench.worker.sharding import Batch
from bench.worker.workload.layers import replace_forward


@dataclass
class Loss(ModelOutput):
    """What the module returns in training, as transformers' models do."""

    loss: torch.Tensor | None = None


@dataclass(frozen=True)
class UserCode:
    """What the user's file offers."""

    where: str  # model.module
    build: Callable[..., Any]
    example_batch: Callable[..., Any]
    loss: Callable[..., Any] | None


def build(model: Model) -> torch.nn.Module:
    """A module of the user's class, whose forward takes a batch and returns `Loss`."""
    code = load(str(model.module))
    _check_arguments(code, model.config)
    with naming_failure(f"building model.module={code.where} fails"):
        built = code.build(**model.config)
    if not isinstance(built, torch.nn.Module):
        raise UserError(
            f"model.module={code.where} makes a {type(built).__name__}",
            "it must be a torch.nn.Module, or a function that returns one",
        )
    _check_weights(built)
    _return_loss(built, code)
    return built


def _check_weights(module: torch.nn.Module) -> None:
    """Refuse weights that no backend could start from: they are copied in fp32 before the first batch."""
    for name, weight in module.named_parameters():
        if torch.nn.parameter.is_lazy(weight):
            raise UserError(
                f"{name} has no shape before the first batch",
                "give its layer the size of its input instead of nn.Lazy…",
            )
        if weight.requires_grad and weight.dtype != torch.float32:
            raise UserError(
                f"{name} is {weight.dtype}", "build the module in torch.float32; precision= chooses another"
            )


@functools.cache
def load(where: str) -> UserCode:
    """Import the user's file, once in a process; `UserError` if that fails or it lacks something."""
    place, _, name = where.rpartition(":")
    file = find_file(where)
    keep_bytecode_of(where)
    with naming_failure(f"importing model.module={where} fails"):
        if names_file(place):
            imported = _import_file(file)
        else:
            sys.path.append(str(Path.cwd()))  # where the command was typed, as for a path
            imported = importlib.import_module(place)
    builder = getattr(imported, name, None)
    if not callable(builder):
        callables = [key for key, value in vars(imported).items() if callable(value)]
        raise UserError(f"{file} has no class or function {name}", _nearest(name, callables))
    example_batch = getattr(builder, "example_batch", None) or getattr(imported, "example_batch", None)
    if not callable(example_batch):
        raise UserError(
            f"{file} has no example_batch",
            "write a function example_batch(batch_size, seed) that returns a dict of tensors, forward's "
            "keyword arguments",
        )
    loss = getattr(imported, "loss", None)
    return UserCode(where, builder, example_batch, loss if callable(loss) else None)


def make_batch(model: Model, *, batch_size: int, seq_len: int | None, seed: int) -> Batch:
    """What `example_batch` returns, checked: the same for the same seed; a sample is an entry of axis 0."""
    code = load(str(model.module))
    signature = inspect.signature(code.example_batch)
    if seq_len is not None and "seq_len" not in signature.parameters:
        raise UserError(
            f"seq_len={seq_len} has no effect, since example_batch of model.module={code.where} does not "
            "take seq_len",
            "leave it out, or take it there",
        )
    length = {} if seq_len is None else {"seq_len": seq_len}
    try:
        signature.bind(batch_size, seed, **length)
    except TypeError:
        raise UserError(
            f"example_batch{signature} of model.module={code.where} cannot be called as "
            f"example_batch(batch_size, seed{', seq_len' if length else ''})",
            "let it take these alone; in a class it must be a @staticmethod",
        ) from None
    with naming_failure(f"example_batch({batch_size}, {seed}) of model.module={code.where} fails"):
        batch = code.example_batch(batch_size, seed, **length)
    if not isinstance(batch, Mapping) or not batch:
        raise UserError(
            f"example_batch returns a {type(batch).__name__}",
            "it must be a dict of tensors, forward's keyword arguments",
        )
    for key, value in batch.items():
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
            kind = f"on {value.device}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
            raise UserError(f"example_batch's {key} is {kind}", "it must be a tensor on the CPU")
        if not value.dim() or len(value) != batch_size:
            raise UserError(
                f"example_batch({batch_size}, {seed}) gives {key} the shape {tuple(value.shape)}",
                f"its first axis must be the samples, batch_size={batch_size}",
            )
    return dict(batch)


def make_batches(spec: WorkerSpec, *, count: int, rank: int, pinned: bool) -> list[Batch]:
    """Micro-batches of a rank, each made with a seed that no other has; pinned for a device."""
    seeds = np.random.default_rng([spec.seed, rank]).integers(2**31, size=count).tolist()
    made = [
        make_batch(spec.model, batch_size=spec.micro_batch, seq_len=spec.seq_len, seed=seed) for seed in seeds
    ]
    return [{name: value.pin_memory() for name, value in batch.items()} for batch in made] if pinned else made


def name_inputs(module: torch.nn.Module, batch: Batch) -> None:
    """Give forward's signature the names of the batch's entries, which ORTModule and Trainer read off it."""
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in batch]
    forward: Any = module.forward
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    forward.__func__.__signature__ = inspect.Signature([own, *parameters])


def check_names(model: Model, module: torch.nn.Module, batch: Batch) -> None:
    """Refuse a batch whose entries are not forward's arguments; the loss function may take others."""
    given = batch if load(str(model.module)).loss is None else inputs_of(module, batch)
    try:
        inspect.signature(module.forward).bind(**given)
    except TypeError as error:
        raise UserError(
            f"forward of model.module={model.module} does not fit example_batch's {', '.join(batch)}: "
            f"{error}",
            "give them the names of forward's arguments",
        ) from error


def inputs_of(module: torch.nn.Module, batch: Batch) -> Batch:
    """The entries of a batch that the user's forward takes; the others are for the loss."""
    taken = inspect.signature(module.forward).parameters
    return {name: value for name, value in batch.items() if _takes_any(taken) or name in taken}


def _import_file(file: Path) -> ModuleType:
    """Import the user's file under a name that no package has; it may import files beside it."""
    sys.path.append(str(file.absolute().parent))
    spec = importlib.util.spec_from_file_location(f"user_model_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    imported = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = imported  # dataclasses look up their module
    spec.loader.exec_module(imported)
    return imported


def _check_arguments(code: UserCode, config: Mapping[str, Any]) -> None:
    """Refuse keys of `model.config` that the builder does not take, and missing ones."""
    taken = inspect.signature(code.build).parameters
    name = code.where.rpartition(":")[2]
    unknown = next((key for key in config if key not in taken), None)
    if unknown is not None and not _takes_any(taken):
        nearest = _nearest(unknown, list(taken), "model.config.")
        raise UserError(f"{name} takes no model.config.{unknown}", nearest)
    for key, one in taken.items():
        required = one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        if required and key not in config:
            raise UserError(
                f"{name} needs a value of {key}", f"set +model.config.{key}=…, or give it a default"
            )


def _takes_any(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values())


def _nearest(name: str, names: list[str], prefix: str = "") -> str:
    listed = f"there are {', '.join(names)}" if names else "there is none"
    return did_you_mean(name, names, otherwise=listed, prefix=prefix)


def _return_loss(module: torch.nn.Module, code: UserCode) -> None:
    """Replace the module's forward, in place: its parameters keep the user's names."""
    original: Any = module.forward
    inner = original.__func__
    taken = inspect.signature(original).parameters
    # What forward does not take is for the loss function; without one, forward itself refuses it.
    passes_all = code.loss is None or _takes_any(taken)

    def forward(self: torch.nn.Module, **batch: torch.Tensor) -> Loss:
        given = {name: value for name, value in batch.items() if passes_all or name in taken}
        return Loss(loss=_loss_of(inner(self, **given), batch, code))

    replace_forward(module, forward)


def _loss_of(output: Any, batch: Batch, code: UserCode) -> torch.Tensor:
    where = "forward" if code.loss is None else "loss"
    if code.loss is not None:
        output = found = code.loss(output, batch)
    elif isinstance(output, torch.Tensor) and not output.dim():
        found = output
    else:
        found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(found, torch.Tensor) and not found.dim():
        return found
    kind = f"a {type(output).__name__}"
    remedy = (
        "return the loss, a mapping with loss, or write a function loss(output, batch) that returns a tensor "
        "without axes"
    )
    if isinstance(found, torch.Tensor):
        kind, remedy = f"a loss of the shape {tuple(found.shape)}", "take its .mean()"
    elif found is not None:
        kind = f"a {type(found).__name__} as the loss"
        remedy = "return the tensor, without .item() or the like"
    raise UserError(f"{where} of model.module={code.where} gives {kind}", remedy)
