"""How the ranks share the work: one module per sharding, imported only by ranks that use it."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

from bench.errors import LaunchFailed

Batch = dict[str, torch.Tensor]
"""A micro-batch: the names of the model's inputs, each a tensor whose first axis is the sample."""

ReadGradients = Callable[[Iterable[tuple[str, torch.Tensor]]], None]


class Sharding(Protocol):
    """Runs one optimizer step over the micro-batches of this rank.

    Made from a module with the initial weights on its device, the spec and the device, once torch.distributed
    has been initialised. In fp16 the loss is multiplied by a scale before the backward pass and the gradient
    divided by it before the update, by the same rule under every sharding but DeepSpeed's own modes: a step
    whose gradient, averaged over ranks and micro-batches, is not finite on any rank is skipped by all and
    halves the scale; `spec.growth_steps` steps without one double it.
    """

    autocasts: bool = True  # the model casts in 16 bits (bench.worker.workload.precision); else the sharding
    model: torch.nn.Module  # whose names are the model's own
    optimizer: torch.optim.Optimizer  # the optimizer that updates this rank's parameters, unwrapped
    loss_function: str = ""  # class name of the last loss's autograd node

    watches_gradient: bool = False  # `step` leaves the norm in `gradient_norm`; off in timed blocks
    gradient_norm: float = 0.0
    """Norm of the whole gradient, averaged over ranks and micro-batches, as the optimizer's step saw it:
    without the loss's scale. Infinite if that step was skipped."""

    gradient_reader: ReadGradients | None = None
    """Gets the names and gradients that the next step's update sees, without the loss's scale and whole,
    however they are sharded; None in timed blocks. All ranks have to go through all of them."""

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """Forward, backward and update; returns the mean loss of this rank, detached, on the device."""

    def compute_loss(self, batch: Batch) -> torch.Tensor:
        """The loss of a micro-batch, shape (), without the wrapper that would wait for a backward pass."""
        loss: torch.Tensor = self.model(**batch).loss
        return loss.detach().float()

    def loss_scale(self) -> float | None:
        """What the next loss will be multiplied by; None unless in fp16. Waits for the device."""
        return None

    def skipped_steps(self) -> int | None:
        """Steps skipped since the start; None unless in fp16. Waits for the device."""
        return None

    def updated(self) -> Iterable[torch.Tensor]:
        """What the optimizer updates on this rank."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def weights(self) -> Iterable[tuple[str, torch.Tensor]]:
        """The trained weights by name, whole; all ranks have to go through all of them."""
        return ((name, parameter.detach()) for name, parameter in trained_by_name(self.model))

    def proof(self) -> dict[str, Any]:
        """The classes that did the sharding, and the loss scaling's settings; `LaunchFailed` if others do."""


def trained_by_name(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """The parameters that an optimizer gets, by their names in the model."""
    return ((name, one) for name, one in module.named_parameters() if one.requires_grad)


def trained(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that an optimizer gets: without the frozen ones, such as all but the adapters."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def gradients_of(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Gradients of the trained parameters by name; zero where there is none."""
    for name, parameter in trained_by_name(model):
        yield name, torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def norm_of_gradients(module: torch.nn.Module) -> torch.Tensor:
    """The norm over all gradients of a module, shape ()."""
    norms = [
        torch.linalg.vector_norm(parameter.grad)
        for parameter in module.parameters()
        if parameter.grad is not None
    ]
    return torch.linalg.vector_norm(torch.stack(norms))


def function_of(loss: torch.Tensor) -> str:
    """The class of the autograd node that a loss comes from, also behind DDP that finds unused weights."""
    node: Any = loss.grad_fn
    if type(node).__name__ == "_DDPSinkBackward":
        node = node.next_functions[loss.output_nr][0]
    return type(node).__name__


def mean_of(losses: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean loss of a step's micro-batches, shape ()."""
    return losses[0] if len(losses) == 1 else torch.stack(list(losses)).mean()


def held(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Weights and buffers by name, each once, tied or not."""
    return itertools.chain(model.named_parameters(), model.named_buffers())


def fill(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Copy weights and buffers into a model, which must have each; its others stay as they are."""
    places = dict(held(model))
    with torch.no_grad():
        for name, value in tensors.items():
            if name not in places:
                raise LaunchFailed("invalid", f"the model has no {name}, which was trained")
            places[name].copy_(value)
