"""What all loops have in common: the gradient that the optimizer's step sees, and what proves the loop."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from bench.config.training import Precision
from bench.errors import LaunchFailed
from bench.worker.optimizers import class_path
from bench.worker.sharding import ReadGradients, trained_by_name


class WatchedLoop:
    """Gradients are watched just before the optimizer's step; without a scale, since no loop here scales.

    Args:
        model: whose parameters are trained, unwrapped.
        optimizer: that updates them, unwrapped.
        precision: in which the model computes.

    Raises:
        LaunchFailed: status `unsupported`, if the loss would have to be scaled.
    """

    autocasts = True

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, precision: Precision
    ) -> None:
        if precision.initial_scale is not None:
            raise LaunchFailed(
                "unsupported",
                "loops other than the bare one are not tried with the scaled loss of fp16; "
                "choose precision=bf16 or fp32",
            )
        self.model = model
        self.optimizer = optimizer
        self.loss_function = ""
        self.watches_gradient = False
        self.gradient_norm = 0.0
        self.gradient_reader: ReadGradients | None = None
        optimizer.register_step_pre_hook(self._watch)

    def _watch(self, *_: Any) -> None:
        """Look at the gradients, if somebody wants to know them; whatever the loop did is done by then."""
        if self.watches_gradient:
            gradients = [one.grad for one in self.model.parameters() if one.grad is not None]
            norms = [torch.linalg.vector_norm(one) for one in gradients]
            self.gradient_norm = float(torch.linalg.vector_norm(torch.stack(norms)))
        if self.gradient_reader is not None:
            self.gradient_reader(self._gradients())

    def _gradients(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, parameter in trained_by_name(self.model):
            yield name, torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The model's own."""
        return ((name, one.detach()) for name, one in trained_by_name(self.model))

    def loss_scale(self) -> float | None:
        """None: nothing is scaled."""
        return None

    def skipped_steps(self) -> int | None:
        """None: nothing is skipped."""
        return None

    def updated(self) -> Iterable[torch.Tensor]:
        """The parameters themselves."""
        return [one for group in self.optimizer.param_groups for one in group["params"]]

    def prove(self, loop: object, version: str, wrapped: torch.nn.Module) -> dict[str, Any]:
        """The loop's class and version, and the class of the module that it calls."""
        return {"class": class_path(wrapped), "loop": class_path(loop), "version": version}
