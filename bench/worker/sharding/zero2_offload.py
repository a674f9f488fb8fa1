"""DeepSpeed ZeRO stage 2, optimizer and gradients on the host (Ren et al. 2021, arXiv:2101.06840)."""

from bench.worker.sharding import _zero


class Sharding(_zero.Sharding):
    """ZeRO with stage 2; on a CPU only the way there differs, since the host is the device."""

    stage = 2
    offloaded = ("optimizer",)
