"""DeepSpeed ZeRO stage 1: each rank holds and updates its part of the optimizer states."""

from typing import Any

import deepspeed
import torch
import torch.distributed

from bench.errors import LaunchFailed
from bench.optimizers import class_path
from bench.sharding import Batch, BuildOptimizer, trained


class Sharding:
    """DeepSpeed's engine around the module, with our own optimizer inside its ZeRO optimizer."""

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        build_optimizer: BuildOptimizer,
        device: torch.device,  # noqa: ARG002 - DeepSpeed asks its accelerator
        micro_batch: int,
        grad_accum: int,
    ) -> None:
        deepspeed.init_distributed(dist_backend=torch.distributed.get_backend())
        self.optimizer = build_optimizer(trained(module))
        self.engine, self.zero, _, _ = deepspeed.initialize(
            model=module,
            # A client optimizer: with an `optimizer` section DeepSpeed would build its own FusedAdam.
            optimizer=self.optimizer,
            config=settings(micro_batch, grad_accum),
        )
        self.loss_function = ""
        self.watches_gradient = False
        self.gradient_norm = 0.0

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """DeepSpeed divides by the accumulation steps itself and updates with the last micro-batch."""
        losses = []
        for batch in micro_batches:
            loss = self.engine(**batch).loss
            self.loss_function = type(loss.grad_fn).__name__
            self.engine.backward(loss)
            self.engine.step()
            losses.append(loss.detach())
        if self.watches_gradient:  # DeepSpeed works it out at every step
            self.gradient_norm = float(self.engine.get_global_grad_norm())
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    def proof(self) -> dict[str, Any]:
        """The engine's and the ZeRO optimizer's class and stage.

        Raises:
            LaunchFailed: DeepSpeed did not do ZeRO stage 1, or not around our optimizer.
        """
        stage = self.engine.zero_optimization_stage()
        if stage != 1 or getattr(self.zero, "optimizer", None) is not self.optimizer:
            raise LaunchFailed("invalid", f"DeepSpeed runs stage {stage} with {class_path(self.zero)}")
        return {
            "class": class_path(self.engine),
            "optimizer_class": class_path(self.zero),
            "stage": stage,
            "deepspeed": deepspeed.__version__,
        }


def settings(micro_batch: int, grad_accum: int) -> dict[str, Any]:
    """DeepSpeed's configuration: its defaults, stage 1, and nothing that logs inside a timed block."""
    return {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": grad_accum,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 2**31,
        "wall_clock_breakdown": False,
    }
