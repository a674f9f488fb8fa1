"""DeepSpeed ZeRO stage 1: each rank holds and updates its part of the optimizer states."""

from bench.worker.sharding import _zero


class Sharding(_zero.Sharding):
    """ZeRO with stage 1; all else is in `_zero.Sharding`."""

    stage = 1
