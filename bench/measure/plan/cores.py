"""Which CPU cores each rank gets, and keeping the coordinator off them."""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def core_shares(
    cores: Sequence[int],
    *,
    world_size: int,
    threads: int,
    held: bool = True,
    near: Sequence[Sequence[int]] = (),
    shared: bool = False,
) -> list[tuple[int, ...]]:
    """Each rank's own cores: `threads` neighbours each, in the order of the ranks; all if not `held`.

    Args:
        world_size: ranks on this machine.
        held: whether each rank is pinned to its own cores.
        shared: ranks may take turns on a core.
        near: by rank, the cores next to its GPU, which it gets while there are any.

    Raises:
        ValueError: the cores do not suffice (the configuration is checked before).
    """
    if shared:
        cores = [*cores] * -(-world_size * threads // len(cores))
    if len(cores) < world_size * threads:
        raise ValueError(f"{world_size} ranks of {threads} threads do not fit on {len(cores)} cores")
    if not held:
        return [tuple(cores)] * world_size
    left, shares = list(cores), []
    for rank in range(world_size):
        close = set(near[rank]) if rank < len(near) else set()
        left.sort(key=lambda core: core not in close)  # a stable sort: neighbours stay neighbours
        shares.append(tuple(left[:threads]))
        left = sorted(left[threads:], key=cores.index)
    return shares


@contextmanager
def leaving_the_ranks_cores(cores: Sequence[tuple[int, ...]]) -> Iterator[None]:
    """Keep this process off the ranks' cores where there are others."""
    before = os.sched_getaffinity(0)
    if others := before - set(itertools.chain(*cores)):
        os.sched_setaffinity(0, others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
