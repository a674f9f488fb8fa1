"""In which order a rank sees the samples of a dataset."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Draw:
    """A micro-batch to be made: its number in the rank's stream, and its samples."""

    number: int
    samples: tuple[int, ...]


class Order:
    """The endless stream of one rank's draws: the same for every backend, and no two ranks share a sample.

    Every epoch is a new shuffle of the whole dataset, of which each rank takes every `world_size`-th sample;
    what does not fill a micro-batch on all ranks is dropped.
    """

    def __init__(self, samples: int, *, micro_batch: int, rank: int, world_size: int, seed: int) -> None:
        self.samples = samples
        self.micro_batch = micro_batch
        self.rank = rank
        self.world_size = world_size
        self.seed = seed

    def __iter__(self) -> Iterator[Draw]:
        per_epoch = self.samples // (self.micro_batch * self.world_size)
        number = epoch = 0
        while True:
            shuffled = np.random.default_rng([self.seed, epoch]).permutation(self.samples)
            own = shuffled[self.rank :: self.world_size][: per_epoch * self.micro_batch]
            for batch in own.reshape(per_epoch, self.micro_batch):
                yield Draw(number, tuple(batch.tolist()))
                number += 1
            epoch += 1
