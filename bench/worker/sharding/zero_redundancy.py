"""torch's ZeroRedundancyOptimizer: what ZeRO stage 1 shards, around DistributedDataParallel."""

from typing import Any

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer

from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.worker import optimizers
from bench.worker.optimizers import class_path
from bench.worker.sharding import ddp, trained


class Sharding(ddp.Sharding):
    """Each rank updates its own set of whole parameters and broadcasts them."""

    def updates(self, spec: WorkerSpec) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
        """The sharding optimizer, and ours within, which has this rank's parameters alone."""
        sharding = ZeroRedundancyOptimizer(
            trained(self.module),
            optimizer_class=lambda groups, **_: optimizers.build(spec.optimizer, groups, spec.adam),
        )
        return sharding, sharding.optim

    def proof(self) -> dict[str, Any]:
        """The optimizer's class; all ranks have to ask, since together they must update every parameter."""
        groups = [optimizer.param_groups for optimizer in (self.optimizer, self.updater)]
        own, whole = (sum(weight.numel() for group in each for weight in group["params"]) for each in groups)
        # Over all ranks: tensors are divided whole, so that a rank may have all of a single one.
        updated = torch.tensor(own, device=trained(self.module)[0].device)
        torch.distributed.all_reduce(updated)
        if updated != whole:
            raise LaunchFailed(
                "invalid", f"ZeroRedundancyOptimizer updates {updated} parameters on all ranks, not {whole}"
            )
        return super().proof() | {"optimizer_class": class_path(self.updater)}
