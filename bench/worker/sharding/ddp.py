"""Every rank holds everything; DistributedDataParallel averages the gradients."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from bench.launch.spec import WorkerSpec
from bench.worker import optimizers, sharding
from bench.worker.optimizers import class_path
from bench.worker.sharding import Batch, trained, trained_by_name


class Sharding(sharding.Sharding):
    """Data parallelism. One rank has nothing to average and, as in transformers' Trainer, no wrapper."""

    def __init__(self, module: torch.nn.Module, spec: WorkerSpec, device: torch.device) -> None:
        self.model = module
        self.precision = spec.precision.name
        self.waits_for_all = not spec.without_gradient
        self.module = self.wrap(module, device)
        self.updater, self.optimizer = self.updates(spec)
        self.passes = spec.passes
        self.scaler: torch.amp.GradScaler | None = None
        if spec.scales_loss:
            self.scaler = torch.amp.GradScaler(
                device.type,
                init_scale=spec.initial_scale,
                growth_factor=2.0,
                backoff_factor=0.5,
                growth_interval=spec.growth_steps,
            )
        self._skipped = torch.zeros((), device=device)

    def wrap(self, module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
        """The module that is called."""
        if torch.distributed.get_world_size() == 1:
            return module
        devices = [device] if device.type == "cuda" else None
        # DeepSpeed leaves buffers to each rank, too; by default DDP would send them at every forward pass.
        return DistributedDataParallel(
            module, device_ids=devices, broadcast_buffers=False, find_unused_parameters=not self.waits_for_all
        )

    def updates(self, spec: WorkerSpec) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
        """The optimizer to step, and the one within that updates this rank's parameters: here one."""
        optimizer = optimizers.build(spec.optimizer, trained(self.module), spec.adam)
        return optimizer, optimizer

    def step(self, micro_batches: list[Batch]) -> torch.Tensor:
        """Gradients are averaged over the ranks only with the last micro-batch (`no_sync` before)."""
        losses = []
        for number, batch in enumerate(micro_batches, start=1):
            last = number == self.passes
            with nullcontext() if last else self.without_sync():
                loss = self.module(**batch).loss
                self.loss_function = sharding.function_of(loss)
                loss = loss.float()  # FSDP2's may have 16 bits, too few for a scale and for a mean
                share = loss / self.passes if self.passes > 1 else loss
                (share if self.scaler is None else self.scaler.scale(share)).backward()
            losses.append(loss.detach())
        if self.watches_gradient:
            norm = self.whole(sharding.norm_of_gradients(self.module)).item() / (self.loss_scale() or 1.0)
            self.gradient_norm = norm if self.scaler is None or math.isfinite(norm) else math.inf
        if self.gradient_reader is not None:
            scale = self.loss_scale() or 1.0
            named = sharding.gradients_of(self.model)
            self.gradient_reader((name, self.whole(gradient) / scale) for name, gradient in named)
        self.update()
        return sharding.mean_of(losses)

    def update(self) -> None:
        """The optimizer's step, or in fp16 none if a gradient overflowed; the next gradients begin anew.

        All ranks skip alike, since the gradients they check have been averaged. To read on the host whether
        one overflowed, GradScaler waits once a step, unless the optimizer (torch's fused one) checks itself.
        """
        if self.scaler is None:
            self.updater.step()
        else:
            self.scaler.step(self.updater)
            overflowed = self.scaler._found_inf_per_device(self.updater)
            self._skipped += next(iter(overflowed.values()))  # 0 or 1; one entry: a rank has one device
            self.scaler.update()
        self.updater.zero_grad(set_to_none=True)

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        """A weight, its gradient or a norm with the parts that other ranks hold."""
        return tensor

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The model's own tensors; FSDP2's are gathered one by one."""
        return ((name, self.whole(one.detach())) for name, one in trained_by_name(self.model))

    def loss_scale(self) -> float | None:
        """Ask GradScaler."""
        return None if self.scaler is None else self.scaler.get_scale()

    def skipped_steps(self) -> int | None:
        """The number of skipped steps; it is counted on the device, so that a block does not wait for it."""
        return None if self.scaler is None else int(self._skipped.item())

    def proof(self) -> dict[str, Any]:
        """DDP's class, or that there is none, and GradScaler's settings."""
        wrapped = isinstance(self.module, DistributedDataParallel)
        proof: dict[str, Any] = {"class": class_path(self.module) if wrapped else None}
        if self.scaler is not None:
            proof["loss_scaling"] = {
                "class": class_path(self.scaler),
                "initial_scale": self.scaler._init_scale,
                "growth_steps": self.scaler.get_growth_interval(),
                "growth": self.scaler.get_growth_factor(),
                "backoff": self.scaler.get_backoff_factor(),
            }
        return proof

    def without_sync(self) -> AbstractContextManager[None]:
        """While it is open, gradients are added up on this rank alone."""
        return self.module.no_sync() if isinstance(self.module, DistributedDataParallel) else nullcontext()
