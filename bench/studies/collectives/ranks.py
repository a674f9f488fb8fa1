"""What a rank does: it counts the collectives of a step."""

from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.studies.collectives.messages import CollectivesCounted
from bench.studies.collectives.sent import Collective
from bench.worker.rank.rank import Rank

NAMESPACES = ("c10d", "_c10d_functional")
"""Namespaces of the operators by which torch asks a communication library for anything."""

WHOLE = {
    "allreduce_": ("all_reduce", 0),
    "allreduce_coalesced_": ("all_reduce", 0),
    "_allgather_base_": ("all_gather", 0),
    "allgather_": ("all_gather", 0),
    "allgather_into_tensor_coalesced_": ("all_gather", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
    "reduce_scatter_": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 1),
    "broadcast_": ("broadcast", 0),
    "reduce_": ("reduce", 0),
    "all_reduce_": ("all_reduce", 0),
    "reduce_scatter_tensor": ("reduce_scatter", 0),
}
"""For operators that their kind does not name: the kind, and which argument is the whole tensor."""

NOT_SENT = ("wait_tensor", "barrier", "monitored_barrier_")  # operators that send no tensor


class _Listener(TorchDispatchMode):
    """Notes every collective that this thread asks for, from Python, DDP's reducer or autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[Collective] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator; note it first, since an all-gather's input may be a part of its output."""
        if func.namespace in NAMESPACES:
            name = func._overloadpacket.__name__
            if name not in NOT_SENT:
                kind, place = WHOLE.get(name, (name, 0))
                tensors = [leaf for leaf in tree_leaves(args[place]) if isinstance(leaf, torch.Tensor)]
                if tensors:
                    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
                    asked = Collective(kind=kind, bytes=size, element_bytes=tensors[0].element_size())
                    self.calls[asked] += 1
        return func(*args, **(kwargs or {}))


def count_collectives(rank: Rank) -> CollectivesCounted:
    """Take a step; the collectives that it asks for on this rank, each with its calls, largest first."""
    (batch,) = rank.training.steps(1)
    with _Listener() as listener:
        rank.training.step(batch)
    calls = sorted(listener.calls.items(), key=lambda item: (-item[0].bytes, item[0].kind))
    return CollectivesCounted(counted=calls)
