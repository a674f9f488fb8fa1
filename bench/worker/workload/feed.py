"""What every source of a rank's micro-batches offers, whether they are synthetic or read from a dataset."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import torch

from bench.worker.workload.tasks import Arrays

Batch = dict[str, torch.Tensor]


class Feed(Protocol):
    """A rank's micro-batches: one seed gives the same ones in the same order under every backend."""

    padding_share: float | None
    """Padded positions / all positions; None where samples have no length."""

    def steps(self, count: int) -> Iterable[list[Batch]]:
        """The micro-batches of the next `count` steps."""

    def repeat_first(self, count: int) -> None:
        """From now on cycle through the first `count` micro-batches only."""

    def waited(self) -> float | None:
        """Seconds that the last `steps` took to hand out; None if all of it was there beforehand."""


class ReadyFeed(Feed):
    """Has a step's micro-batches before the step begins, so that nothing is made inside a block.

    `stream` begins the endless stream of micro-batches, which is the same each time.
    """

    def __init__(
        self, stream: Callable[[], Iterator[Batch]], *, grad_accum: int, padding_share: float | None
    ) -> None:
        self.padding_share = padding_share
        self._stream = stream
        self._grad_accum = grad_accum
        self._next = stream()

    def steps(self, count: int) -> list[list[Batch]]:
        """All of them at once."""
        return [[next(self._next) for _ in range(self._grad_accum)] for _ in range(count)]

    def repeat_first(self, count: int) -> None:
        """Make the first `count` micro-batches of the stream and cycle through them."""
        self._next = itertools.cycle([*itertools.islice(self._stream(), count)])

    def waited(self) -> None:
        """Nobody waits for what is there."""


def tensors(batch: Arrays, names: list[str], *, pinned: bool) -> Batch:
    """The inputs of these names, pinned where a device will read them."""
    made = {name: torch.from_numpy(batch[name]) for name in names}
    return {name: tensor.pin_memory() if pinned else tensor for name, tensor in made.items()}
