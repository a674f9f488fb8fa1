"""Counts the collectives of a step, and times each of them alone."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.results.collectives import SENT, Collective, CountedCollective, TimedCollective
from bench.worker.rank.training import Training

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

WARM_UPS, WINDOW, FEWEST, MOST = 2, 0.3, 5, 50
"""Repetitions that do not count, seconds in which others do, and how many these are."""


class _Listener(TorchDispatchMode):
    """Notes every collective that this thread asks for, whoever does: Python, DDP's reducer, autograd."""

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


def count(step: Callable[[], object]) -> list[CountedCollective]:
    """The collectives of one optimizer step on this rank, largest first."""
    with _Listener() as listener:
        step()
    return [
        CountedCollective(collective=one, calls=calls)
        for one, calls in sorted(listener.calls.items(), key=lambda item: (-item[0].bytes, item[0].kind))
    ]


def time_alone(collectives: Sequence[Collective], training: Training) -> list[TimedCollective]:
    """Do each of them some times, while the ranks do nothing else; kinds that are not in `SENT` are left out.

    All ranks have to be asked for the same, in the same order.
    """
    return [
        _time(collective, training)
        for collective in collectives
        if collective.kind in SENT and collective.bytes
    ]


def _time(collective: Collective, training: Training) -> TimedCollective:
    call = _prepare(collective, training.device)

    def repeat() -> float:
        training.synchronize()
        training.barrier()
        start = time.perf_counter()
        call()
        training.synchronize()
        return time.perf_counter() - start

    for _ in range(WARM_UPS):
        seconds = repeat()
    # All ranks must do it as often, whatever each has measured.
    longest = torch.tensor([seconds], dtype=torch.float64, device=training.device)
    torch.distributed.all_reduce(longest, torch.distributed.ReduceOp.MAX)
    repetitions = min(MOST, max(FEWEST, int(WINDOW / max(longest.item(), 1e-9))))
    cpu = time.process_time()
    measured = tuple(repeat() for _ in range(repetitions))
    each = (time.process_time() - cpu) / repetitions
    return TimedCollective(collective=collective, seconds=measured, cpu_seconds=each)


def _prepare(collective: Collective, device: torch.device) -> Callable[[], object]:
    """A function that does it once, with tensors of zeros."""
    distributed = torch.distributed
    ranks = distributed.get_world_size()
    dtype = {1: torch.uint8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[collective.element_bytes]
    elements = collective.bytes // collective.element_bytes
    part = torch.zeros(-(-elements // ranks), dtype=dtype, device=device)
    divided = torch.zeros(part.numel() * ranks, dtype=dtype, device=device)
    whole = divided[:elements]
    match collective.kind:
        case "all_reduce":
            return lambda: distributed.all_reduce(whole)
        case "all_gather":
            return lambda: distributed.all_gather_into_tensor(divided, part)
        case "reduce_scatter":
            return lambda: distributed.reduce_scatter_tensor(part, divided)
        case "broadcast":
            return lambda: distributed.broadcast(whole, 0)
        case _:
            return lambda: distributed.reduce(whole, 0)
