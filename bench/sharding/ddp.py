"""Every rank holds everything; DistributedDataParallel averages the gradients."""

from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from bench.optimizers import class_path
from bench.sharding import Batch, BuildOptimizer, trained


class Sharding:
    """With one rank there is nothing to average and, as in transformers' Trainer, no wrapper."""

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        build_optimizer: BuildOptimizer,
        device: torch.device,
        micro_batch: int,  # noqa: ARG002 - DeepSpeed must be told, DDP need not
        grad_accum: int,
    ) -> None:
        self.optimizer = build_optimizer(trained(module))
        self.module = module
        if torch.distributed.get_world_size() > 1:
            devices = [device] if device.type == "cuda" else None
            self.module = DistributedDataParallel(module, device_ids=devices)
        self.grad_accum = grad_accum
        self.loss_function = ""
        self.watches_gradient = False
        self.gradient_norm = 0.0

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """Gradients are averaged over the ranks only with the last micro-batch (`no_sync` before)."""
        losses = []
        for number, batch in enumerate(micro_batches, start=1):
            last = number == self.grad_accum
            with nullcontext() if last else self._without_sync():
                loss = self.module(**batch).loss
                self.loss_function = type(loss.grad_fn).__name__
                (loss / self.grad_accum if self.grad_accum > 1 else loss).backward()
            losses.append(loss.detach())
        if self.watches_gradient:
            gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
            norms = torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients])
            self.gradient_norm = torch.linalg.vector_norm(norms).item()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()

    def proof(self) -> dict[str, Any]:
        """DDP's class, or that there is none."""
        wrapped = isinstance(self.module, DistributedDataParallel)
        return {"class": class_path(self.module) if wrapped else None}

    def _without_sync(self) -> Any:
        wrapped = isinstance(self.module, DistributedDataParallel)
        return self.module.no_sync() if wrapped else nullcontext()
