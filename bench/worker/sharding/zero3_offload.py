"""DeepSpeed ZeRO stage 3 whose optimizer, gradients and weights live on the host."""

from bench.worker.sharding import zero3


class Sharding(zero3.Sharding):
    """ZeRO with stage 3; a layer's weights come to the device while it computes."""

    offloaded = ("optimizer", "param")
