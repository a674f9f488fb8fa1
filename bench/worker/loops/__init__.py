"""Training loops of libraries that users use, one module each, in place of the harness's bare loop.

A module's class `Loop` has the interface of a sharding (`bench.worker.sharding.Sharding`): it wraps the
module, makes a step and proves what ran. `SHARDINGS_OF_LOOPS` says which have DeepSpeed beside DDP.
"""

from typing import Any

import torch

from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.worker import optimizers, sharding
from bench.worker.optimizers import class_path
from bench.worker.sharding import gradients_of, norm_of_gradients, trained


class WatchedLoop(sharding.Sharding):
    """Gradients are watched just before the optimizer's step; without a scale, since no loop here scales."""

    def __init__(self, module: torch.nn.Module, spec: WorkerSpec) -> None:
        if spec.scales_loss:
            raise LaunchFailed(
                "unsupported",
                "loops other than the bare one are not tried with the scaled loss of fp16; "
                "choose precision=bf16 or fp32",
            )
        self.model = module
        if spec.sharding == "ddp":  # DeepSpeed's shardings make it by themselves
            self.optimizer = optimizers.build(spec.optimizer, trained(module), spec.adam)
            self.optimizer.register_step_pre_hook(self._watch)

    def _watch(self, *_: Any) -> None:
        """Record the gradients' norm if it is wanted, after all that the loop does to the gradients."""
        if self.watches_gradient:
            self.gradient_norm = float(norm_of_gradients(self.model))
        if self.gradient_reader is not None:
            self.gradient_reader(gradients_of(self.model))

    def prove(self, loop: object, version: str, wrapped: torch.nn.Module) -> dict[str, Any]:
        """The loop's class and version, and the class of the module that it calls."""
        return {"class": class_path(wrapped), "loop": class_path(loop), "version": version}
