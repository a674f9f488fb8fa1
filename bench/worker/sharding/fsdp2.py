"""torch's fully_shard (FSDP2): each rank holds its part of weights, gradients and states, as ZeRO stage 3.

In 16 bits FSDP2 itself casts, which is how it is used: a layer's weights are gathered in 16 bits for the
computation, gradients are summed over the ranks in fp32, and what a rank holds is fp32.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from bench.errors import LaunchFailed
from bench.worker.optimizers import class_path
from bench.worker.sharding import ddp
from bench.worker.workload.precision import SIXTEEN_BITS


class Sharding(ddp.Sharding):
    """A layer's weights are gathered before it runs, and its gradients scattered after."""

    autocasts = False

    def wrap(self, module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
        """Every layer is sharded as a unit, and the remaining weights with the whole model."""
        if device.type == "cpu" and not hasattr(torch.cpu.Stream, "record_event"):
            raise LaunchFailed("unsupported", f"fully_shard of torch {torch.__version__} needs a CUDA device")
        dtype = SIXTEEN_BITS.get(self.precision)
        policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
        for layer in list(_layers(module)):
            fully_shard(layer, mp_policy=policy)
        return fully_shard(module, mp_policy=policy)

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        """Gathered from all ranks."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    @contextmanager
    def without_sync(self) -> Iterator[None]:
        """While it is open, every rank keeps its own whole gradients."""
        assert isinstance(self.module, FSDPModule)
        self.module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.module.set_requires_gradient_sync(True)

    def proof(self) -> dict[str, Any]:
        """The module's class, and the type that is computed with; no parameter may be whole."""
        parameters = list(self.module.parameters())
        whole = [parameter for parameter in parameters if not isinstance(parameter, DTensor)]
        if whole or not isinstance(self.module, FSDPModule):
            raise LaunchFailed("invalid", f"FSDP2 left {len(whole)} of {len(parameters)} tensors whole")
        gathered = sorted(self._gathered_types())
        if gathered != [str(SIXTEEN_BITS.get(self.precision, torch.float32))]:
            raise LaunchFailed("invalid", f"FSDP2 gathers {', '.join(gathered)} for {self.precision}")
        return super().proof() | {"class": class_path(self.module), "gathered": gathered}

    def _gathered_types(self) -> set[str]:
        """Types of the weights in the forward pass; all ranks have to ask, since they gather them."""
        types = set()
        for module in self.module.modules():
            if isinstance(module, FSDPModule):
                module.unshard()
                gathered = (value for value in module.parameters() if not isinstance(value, DTensor))
                types |= {str(value.dtype) for value in gathered}
                module.reshard()
        return types


def _layers(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The members of the outermost module lists: T5's layers hold inner lists, of parts of a layer."""
    for child in module.children():
        if isinstance(child, torch.nn.ModuleList):
            yield from child
        else:
            yield from _layers(child)
