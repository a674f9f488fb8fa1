"""DeepSpeed ZeRO stage 3: each rank also keeps only its part of the weights."""

from collections.abc import Iterable, Iterator, Sequence

import deepspeed
import torch
import torch.distributed

from bench.worker.sharding import _zero, trained_by_name


class Sharding(_zero.Sharding):
    """ZeRO with stage 3, whose weights have to be gathered."""

    stage = 3

    def updated(self) -> Iterable[torch.Tensor]:
        """Flat parts, which the optimizer has only while it steps."""
        parts: list[torch.Tensor] = self.zero.fp32_partitioned_groups_flat
        return parts

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Let DeepSpeed gather each weight from the ranks that hold its parts."""
        for name, one in trained_by_name(self.model):
            with deepspeed.zero.GatheredParameters(one):
                yield name, one.detach()


def gather_all(
    init: deepspeed.zero.Init,
    parameters: Sequence[torch.nn.Parameter],
    hierarchy: int = 0,
    quantize: bool = False,
) -> None:
    """DeepSpeed's gather of several weights, as after each update, and a wait until all have arrived.

    DeepSpeed 0.16.9 waits for the last one alone (0.19.8 for each). NCCL does them in order; gloo has two
    threads, and the next forward pass would compute with what the memory held before.
    """
    _gather(init, parameters, hierarchy, quantize)
    if parameters:
        group = init.get_partition_dp_group(parameters[0])
        if torch.distributed.get_backend(group) == "gloo":
            torch.distributed.barrier(group)  # gloo's begins when all that this rank has started is done


if deepspeed.__version__.startswith("0.16."):
    _gather = deepspeed.zero.Init._allgather_params_coalesced
    deepspeed.zero.Init._allgather_params_coalesced = gather_all
