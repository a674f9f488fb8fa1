"""The optimizers, a module each, all with the same hyperparameters; and the proof of what was built.

A module is imported only in the process that uses it. Its `build` takes the parameters, and `HYPERPARAMETERS`
as keywords, and returns the optimizer. If that has only some of these, the module names them in `SHARED`.
"""

import math
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch.optim.optimizer import _default_to_fused_or_foreach

from bench.config.choices import OTHER_UPDATES
from bench.config.training import Adam
from bench.errors import LaunchFailed
from bench.worker import load_choice

HYPERPARAMETERS = ("lr", "betas", "eps", "weight_decay")  # by torch's names

ASKED = {"adamw_forloop": "for-loop", "adamw_foreach": "foreach", "adamw_fused": "fused"}
"""Which of torch's implementations an optimizer asks for; `adamw` leaves the choice to torch."""


def check_sharding(name: str, sharding: str) -> None:
    """Refuse as `unsupported` an optimizer of whole parameters where the sharding gives it parts of them."""
    if name in OTHER_UPDATES and sharding != "ddp":
        raise LaunchFailed(
            "unsupported",
            f"optimizer={name} needs whole parameters, which sharding={sharding} divides; "
            "choose sharding=ddp",
        )


def build(name: str, parameters: Iterable[torch.nn.Parameter], adam: Adam) -> torch.optim.Optimizer:
    """AdamW in the implementation `name`, or an optimizer of `bench.config.choices.OTHER_UPDATES`."""
    module = load_choice("optimizers", name)
    optimizer: torch.optim.Optimizer = module.build(parameters, **_hyperparameters(module, adam))
    return optimizer


def _hyperparameters(module: ModuleType, adam: Adam) -> dict[str, Any]:
    configured = {
        "lr": adam.lr,
        "betas": (adam.beta1, adam.beta2),
        "eps": adam.eps,
        "weight_decay": adam.weight_decay,
    }
    return {name: configured[name] for name in getattr(module, "SHARED", HYPERPARAMETERS)}


def proof(
    optimizer: torch.optim.Optimizer, *, name: str, adam: Adam, updated: Iterable[torch.Tensor]
) -> dict[str, Any]:
    """Class, implementation and hyperparameters of the optimizer that runs; `LaunchFailed` if one is another.

    `updated` is what it updates on this rank: ZeRO stage 3 has that in no group between steps.
    """
    groups = [
        {key: _plain(value) for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    wanted = _hyperparameters(load_choice("optimizers", name), adam)
    for group in groups:
        for key, value in wanted.items():
            if not _are_equal(group.get(key), value):
                raise LaunchFailed("invalid", f"the optimizer runs with {key}={group.get(key)}")
    implementation = find_implementation(optimizer, list(updated))
    if implementation != ASKED.get(name, implementation):
        raise LaunchFailed("invalid", f"{name} runs as {implementation}, not as {ASKED[name]}")
    return {"class": class_path(optimizer), "implementation": implementation, "groups": groups}


def find_implementation(optimizer: torch.optim.Optimizer, updated: list[torch.Tensor]) -> str | None:
    """Which of torch's AdamWs steps, as torch.optim.adamw.adamw decides; None: another class."""
    if not isinstance(optimizer, torch.optim.AdamW):
        return None
    chosen = set()
    for group in optimizer.param_groups:
        fused, foreach = group["fused"], group["foreach"]
        if fused is None and foreach is None:
            # torch, too, never takes the fused one by itself.
            fused, foreach = _default_to_fused_or_foreach(updated, group["differentiable"], use_fused=False)
        chosen.add("fused" if fused else "foreach" if foreach else "for-loop")
    return ", ".join(sorted(chosen))


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the moments (and counters, scales …) that this rank holds; what several share counts once."""
    held = {
        (tensor.data_ptr(), tensor.numel()): tensor.numel() * tensor.element_size()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
        for tensor in _held(value)
    }
    return sum(held.values())


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the memory in which these tensors lie; what several share counts once."""
    plain = (part.untyped_storage() for tensor in tensors for part in _held(tensor.detach()))
    return sum({storage.data_ptr(): storage.nbytes() for storage in plain}.values())


def _held(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """The plain tensors inside a tensor: this rank's part of it, or its codes and their scales."""
    if hasattr(value, "__tensor_flatten__"):
        parts = (getattr(value, name) for name in value.__tensor_flatten__()[0])
        for part in parts:
            if isinstance(part, torch.Tensor):  # beside these, a sharded tensor of torch 2.11 names its mesh
                yield from _held(part)
    else:
        yield value


def _are_equal(running: Any, wanted: Any) -> bool:
    """Whether a hyperparameter, which some optimizers keep as a tensor of fp32, has the wanted value."""
    running, wanted = (value if isinstance(value, list | tuple) else [value] for value in (running, wanted))
    return len(running) == len(wanted) and all(
        isinstance(value, int | float) and math.isclose(value, other, rel_tol=1e-6)
        for value, other in zip(running, wanted, strict=True)
    )


def class_path(thing: object) -> str:
    """`package.module.Class` of an object."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, int | float | str | bool | list | None) else str(value)
