"""DeepSpeed ZeRO stage 3: each rank also keeps only its part of the weights."""

from collections.abc import Iterable

import torch

from bench.worker.sharding import _zero


class Sharding(_zero.Sharding):
    """As the stage says."""

    stage = 3

    def updated(self) -> Iterable[torch.Tensor]:
        """Flat parts, which the optimizer has only while it steps."""
        parts: list[torch.Tensor] = self.zero.fp32_partitioned_groups_flat
        return parts
