"""What every source of a rank's micro-batches offers, whether they are synthetic or read from a dataset."""

from collections.abc import Iterable
from typing import Protocol

import torch

from bench.worker.workload.tasks import Arrays

Batch = dict[str, torch.Tensor]


class Feed(Protocol):
    """The same seed gives the same batches in the same order under every backend."""

    padding_share: float | None
    """Padded positions / all positions; None where samples have no length."""

    def steps(self, count: int) -> Iterable[list[Batch]]:
        """The micro-batches of the next `count` steps."""

    def repeat_first(self, count: int) -> None:
        """From now on cycle through the first `count` micro-batches only."""

    def waited(self) -> float | None:
        """Seconds that the last `steps` took to hand out; None if all of it was there beforehand."""


def tensors(batch: Arrays, names: list[str], *, pinned: bool) -> Batch:
    """The inputs of these names, pinned where a device will read them."""
    made = {name: torch.from_numpy(batch[name]) for name in names}
    return {name: tensor.pin_memory() if pinned else tensor for name, tensor in made.items()}
