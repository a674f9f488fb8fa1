"""torch's fully_shard (FSDP2): each rank holds its part of weights, gradients and states, as ZeRO stage 3."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from bench.errors import LaunchFailed
from bench.worker.optimizers import class_path
from bench.worker.sharding import ddp


class Sharding(ddp.Sharding):
    """A layer's weights are gathered before it runs, and its gradients scattered after."""

    def wrap(self, module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
        """Every layer is sharded by itself, with all that is in it, and what is left with the whole.

        Raises:
            LaunchFailed: status `unsupported`, on a CPU if this torch can shard on CUDA devices only.
        """
        if device.type == "cpu" and not hasattr(torch.cpu.Stream, "record_event"):
            raise LaunchFailed("unsupported", f"fully_shard of torch {torch.__version__} needs a CUDA device")
        for layer in list(_layers(module)):
            fully_shard(layer)
        return fully_shard(module)

    def norm(self) -> torch.Tensor:
        """The gradient's, over all ranks."""
        whole = super().norm()
        return whole.full_tensor() if isinstance(whole, DTensor) else whole

    def without_sync(self) -> AbstractContextManager[None]:
        """Within it every rank keeps whole gradients of its own."""
        return self._without_sync()

    @contextmanager
    def _without_sync(self) -> Iterator[None]:
        assert isinstance(self.module, FSDPModule)
        self.module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.module.set_requires_gradient_sync(True)

    def proof(self) -> dict[str, Any]:
        """The module's class, and how many parameters this rank holds of how many.

        Raises:
            LaunchFailed: a parameter is whole on every rank.
        """
        parameters = list(self.module.parameters())
        whole = [one for one in parameters if not isinstance(one, DTensor)]
        if whole or not isinstance(self.module, FSDPModule):
            raise LaunchFailed("invalid", f"FSDP2 left {len(whole)} of {len(parameters)} tensors whole")
        return super().proof() | {
            "class": class_path(self.module),
            "parameters": sum(one.to_local().numel() for one in parameters),
            "of_parameters": sum(one.numel() for one in parameters),
        }


def _layers(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The members of the outermost lists: T5's layers hold lists of their own, of parts of a layer."""
    for child in module.children():
        if isinstance(child, torch.nn.ModuleList):
            yield from child
        else:
            yield from _layers(child)
