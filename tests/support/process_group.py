"""A process group of this process alone, in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ended: list[Any] = []
"""Groups that have ended, which would else wait for their threads with Python's lock held; a thread that
frees the last tensor that it has reduced waits for that lock, and so both would wait for ever (torch 2.6).
"""


@contextmanager
def one_rank() -> Iterator[None]:
    """A group with Gloo, until the end of the `with` block."""
    import torch.distributed

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    _ended.append(torch.distributed.group.WORLD)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()
