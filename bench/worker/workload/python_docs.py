"""The feed of real text that Python ships, made between the blocks."""

import itertools
from collections.abc import Iterator

import torch

from bench.launch.spec import WorkerSpec
from bench.worker.workload import model as models
from bench.worker.workload.feed import Batch, tensors
from bench.worker.workload.order import Order
from bench.worker.workload.text_windows import TextBatches


class PythonDocs:
    """Windows, shuffled anew in every epoch; `bench.worker.workload.feed.Feed` says what its methods do."""

    padding_share: float | None = 0.0

    def __init__(
        self, spec: WorkerSpec, model: torch.nn.Module, *, rank: int, world_size: int, pinned: bool
    ) -> None:
        assert spec.seq_len is not None, (
            "its tasks have lengths; bench.measure.plan.preflight_dataset sees to it"
        )
        self.batches = TextBatches(seq_len=spec.seq_len, task=spec.model.task, seed=spec.seed, rank=rank)
        self.order = Order(
            len(self.batches.windows),
            micro_batch=spec.micro_batch,
            rank=rank,
            world_size=world_size,
            seed=spec.seed,
        )
        self.names = models.accepted(model, list(self.batches.arrays(next(iter(self.order)))))
        self.pinned = pinned
        self.grad_accum = spec.grad_accum
        self._next = self._stream()

    def steps(self, count: int) -> list[list[Batch]]:
        """All of them at once, so that nothing is made inside a block."""
        return [[next(self._next) for _ in range(self.grad_accum)] for _ in range(count)]

    def repeat_first(self, count: int) -> None:
        """Make the first `count` micro-batches of the stream and cycle through them."""
        self._next = itertools.cycle([*itertools.islice(self._stream(), count)])

    def waited(self) -> None:
        """Nobody waits for what is there."""

    def _stream(self) -> Iterator[Batch]:
        for draw in self.order:
            yield tensors(self.batches.arrays(draw), self.names, pinned=self.pinned)
