"""In which order a rank sees the samples of a dataset."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np

from bench.errors import UserError


@dataclass(frozen=True)
class Draw:
    """A micro-batch to be made."""

    samples: tuple[int, ...]
    seed: tuple[int, int, int]  # of the comparison, the rank, and the batch's number in the rank's stream

    def random(self) -> np.random.Generator:
        """The generator of this batch: it draws the same in the rank and in any of its workers."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Order:
    """The endless stream of one rank's draws: every `world_size`-th sample of a new shuffle in each epoch.

    The rest that does not fill a micro-batch on all ranks is dropped.
    """

    samples: int
    _: KW_ONLY
    micro_batch: int
    rank: int
    world_size: int
    seed: int

    @property
    def per_epoch(self) -> int:
        """Micro-batches of this rank."""
        return self.samples // (self.micro_batch * self.world_size)

    def __iter__(self) -> Iterator[Draw]:
        per_epoch = self.per_epoch
        if not per_epoch:
            raise UserError(
                f"the data has {self.samples:,} samples, and one micro-batch of all ranks takes "
                f"{self.micro_batch * self.world_size:,}",
                "lower micro_batch or seq_len, or leave measure.batch=max out",
            )
        number = epoch = 0
        while True:
            shuffled = np.random.default_rng([self.seed, epoch]).permutation(self.samples)
            own = shuffled[self.rank :: self.world_size][: per_epoch * self.micro_batch]
            for batch in own.reshape(per_epoch, self.micro_batch):
                yield Draw(tuple(batch.tolist()), (self.seed, self.rank, number))
                number += 1
            epoch += 1
