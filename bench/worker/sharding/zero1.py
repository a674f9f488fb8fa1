"""DeepSpeed ZeRO stage 1: each rank holds and updates its part of the optimizer states."""

from bench.worker.sharding import _zero


class Sharding(_zero.Sharding):
    """As the stage says."""

    stage = 1
