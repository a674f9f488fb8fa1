"""DeepSpeed ZeRO stage 3 whose optimizer, gradients and weights live on the host."""

from bench.worker.sharding import zero3


class Sharding(zero3.Sharding):
    """As the stage says; a layer's weights come to the device while it computes."""

    offloaded = ("optimizer", "param")
