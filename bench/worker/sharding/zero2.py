"""DeepSpeed ZeRO stage 2: each rank also keeps only its part of the gradients."""

from bench.worker.sharding import _zero


class Sharding(_zero.Sharding):
    """ZeRO with stage 2; all else is in `_zero.Sharding`."""

    stage = 2
