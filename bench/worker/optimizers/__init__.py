"""The optimizers, a module each, all with the same hyperparameters; and the proof of what was built.

A module is imported only in the process that uses it. Its function `build` takes the parameters and the
hyperparameters by torch's names (lr, betas, eps, weight_decay) and returns the optimizer.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import torch

from bench.config.training import Adam
from bench.errors import LaunchFailed


def build(name: str, parameters: Iterable[torch.nn.Parameter], adam: Adam) -> torch.optim.Optimizer:
    """AdamW with decoupled weight decay (Loshchilov & Hutter 2017), in the implementation `name`."""
    hyperparameters: dict[str, Any] = {
        "lr": adam.lr,
        "betas": (adam.beta1, adam.beta2),
        "eps": adam.eps,
        "weight_decay": adam.weight_decay,
    }
    optimizer: torch.optim.Optimizer = import_module(f"bench.worker.optimizers.{name}").build(
        parameters, hyperparameters
    )
    return optimizer


def proof(optimizer: torch.optim.Optimizer, adam: Adam) -> dict[str, Any]:
    """Class and every hyperparameter of the optimizer that runs.

    Raises:
        LaunchFailed: a hyperparameter is not the configured one.
    """
    groups = [
        {key: _plain(value) for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    wanted = {
        "lr": adam.lr,
        "betas": [adam.beta1, adam.beta2],
        "eps": adam.eps,
        "weight_decay": adam.weight_decay,
    }
    for group in groups:
        for key, value in wanted.items():
            if group.get(key) != value:
                raise LaunchFailed("invalid", f"the optimizer runs with {key}={group.get(key)}")
    return {"class": class_path(optimizer), "groups": groups}


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the moments (and counters) that this rank holds."""
    return sum(
        _local(value).numel() * value.element_size()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )


def _local(value: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor that is spread over several."""
    return value.to_local() if hasattr(value, "to_local") else value


def class_path(thing: object) -> str:
    """`package.module.Class` of an object."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, int | float | str | bool | list) or value is None:
        return value
    return str(value)
