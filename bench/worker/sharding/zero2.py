"""DeepSpeed ZeRO stage 2: each rank keeps its part of the gradients, too."""

from bench.worker.sharding import zero


class Sharding(zero.Sharding):
    """As the stage says."""

    stage = 2
