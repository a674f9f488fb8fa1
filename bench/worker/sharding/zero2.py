"""DeepSpeed ZeRO stage 2: each rank keeps its part of the gradients, too."""

from bench.worker.sharding import _zero


class Sharding(_zero.Sharding):
    """As the stage says."""

    stage = 2
