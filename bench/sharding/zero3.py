"""DeepSpeed ZeRO stage 3: each rank keeps its part of the weights, too."""

from bench.sharding import zero


class Sharding(zero.Sharding):
    """As the stage says."""

    stage = 3
