"""How the ranks share the work: one module a kind, imported only in the process that uses it."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Protocol

import torch

Batch = dict[str, torch.Tensor]
BuildOptimizer = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


class Sharding(Protocol):
    """Runs one optimizer step over the micro-batches of this rank."""

    loss_function: str
    """Class name of the last loss's autograd node."""

    optimizer: torch.optim.Optimizer
    """The optimizer that updates this rank's parameters, unwrapped."""

    watches_gradient: bool
    """Whether `step` leaves the gradient's norm in `gradient_norm`; off in timed blocks."""

    gradient_norm: float
    """Of the whole gradient, averaged over ranks and micro-batches, as the optimizer's step saw it."""

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """Forward, backward and update; returns the mean loss of this rank, detached, on the device."""

    def proof(self) -> dict[str, Any]:
        """The classes that did the sharding."""


def make(
    name: str,
    module: torch.nn.Module,
    *,
    build_optimizer: BuildOptimizer,
    device: torch.device,
    micro_batch: int,
    grad_accum: int,
) -> Sharding:
    """The sharding called `name` around `module`, which is on `device` and holds the initial weights.

    torch.distributed must be initialised.
    """
    sharding: Sharding = import_module(f"bench.sharding.{name}").Sharding(
        module,
        build_optimizer=build_optimizer,
        device=device,
        micro_batch=micro_batch,
        grad_accum=grad_accum,
    )
    return sharding


def trained(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that an optimizer gets: not the frozen ones, of which there are many beside adapters."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]
