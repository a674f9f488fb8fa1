"""Accelerate's loop, as its documentation writes it: prepare, accumulate, backward, step."""

from typing import Any

import accelerate
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs

from bench.launch.spec import WorkerSpec
from bench.worker.loops import WatchedLoop
from bench.worker.sharding import Batch, mean_of


class Loop(WatchedLoop):
    """Batches are made beforehand, as for the bare loop: `data=hf` measures loaders."""

    def __init__(self, module: torch.nn.Module, spec: WorkerSpec, device: torch.device) -> None:
        super().__init__(module, spec)
        wrapping = DistributedDataParallelKwargs(
            broadcast_buffers=False, find_unused_parameters=bool(spec.without_gradient)
        )
        # No synchronisation with a loader's end, which endless batches do not have.
        self.accelerator = Accelerator(
            cpu=device.type == "cpu", gradient_accumulation_steps=spec.passes, kwargs_handlers=[wrapping]
        )
        self.module, self.stepper = self.accelerator.prepare(module, self.optimizer)

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """One optimizer step; with the last micro-batch gradients are averaged over the ranks."""
        losses = []
        for batch in micro_batches:
            with self.accelerator.accumulate(self.module):
                loss = self.module(**batch).loss
                self.loss_function = type(loss.grad_fn).__name__
                self.accelerator.backward(loss)
                self.stepper.step()
                self.stepper.zero_grad()
            losses.append(loss.detach())
        return mean_of(losses)

    def proof(self) -> dict[str, Any]:
        """The classes of the loop and of the module."""
        return self.prove(self.accelerator, f"accelerate {accelerate.__version__}", self.module)
