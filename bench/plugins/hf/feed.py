"""Makes a dataset's micro-batches while the ranks train, as a user's own training would."""

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from bench.launch.lifeline import die_with
from bench.launch.spec import WorkerSpec
from bench.plugins.hf import preparation
from bench.worker.sharding import Batch
from bench.worker.workload import model as models
from bench.worker.workload.feeds import Feed, picked
from bench.worker.workload.order import Draw, Order
from bench.worker.workload.synthetic import padding_share
from bench.worker.workload.tasks import Arrays

MEASURED_BATCHES = 8  # micro-batches of each rank in which padding is counted


class Batches:
    """Makes the batch of a draw, in the rank or in one of its workers."""

    def __init__(self, prepared: preparation.TaskPreparation) -> None:
        self.prepared = prepared
        self.names: list[str] | None = None  # of the model's inputs; all until they are known

    def arrays(self, draw: Draw) -> Arrays:
        """What the preparation makes."""
        return self.prepared.batch(draw.samples, draw.random())

    def __getitem__(self, draw: Draw) -> Batch:
        arrays = self.arrays(draw)
        return {name: torch.from_numpy(arrays[name]) for name in self.names or arrays}


class Loader(Feed):
    """The feed of a dataset.

    Workers, if `data.workers` asks for them, keep up to two batches each in stock, also between the blocks.
    They are forked from the rank: they share its cores, are stopped and ended with its process group, and
    their time is counted as the rank's (`machine.telemetry.cpu`). Their memory is not in the rank's peak.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        model: torch.nn.Module,
        *,
        rank: int,
        world_size: int,
        pinned: bool,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        rank_pid = os.getpid()
        self.clock = clock
        self.grad_accum = spec.grad_accum
        prepared = preparation.prepare(
            spec.data,
            spec.model,
            settings=model.config,
            seq_len=spec.seq_len,
            global_batch=spec.micro_batch * spec.grad_accum * world_size,
        )
        samples = len(prepared.samples)
        self.order = Order(
            samples, micro_batch=spec.micro_batch, rank=rank, world_size=world_size, seed=spec.seed
        )
        self.batches = Batches(prepared)
        self.distinct = self.order.per_epoch
        draws = iter(self.order)
        first = [self.batches.arrays(next(draws))]
        if "attention_mask" in first[0]:  # otherwise there is no padding to count
            first += [self.batches.arrays(next(draws)) for _ in range(MEASURED_BATCHES - 1)]
        self.padding_share = padding_share(first)
        self.batches.names = models.accepted(model, list(first[0]))
        self.loader: DataLoader[Any] = DataLoader(
            self.batches,
            sampler=self.order,
            batch_size=None,  # a draw is a whole batch
            collate_fn=lambda batch: batch,
            num_workers=spec.data.workers,
            persistent_workers=spec.data.workers > 0,
            multiprocessing_context="fork" if spec.data.workers else None,
            # It must not outlive its rank, however that ends.
            worker_init_fn=lambda _: die_with(rank_pid, "bench-loader"),
            pin_memory=pinned and spec.data.pinned_memory,
        )
        # Now, so that starting the workers belongs to set-up, and before an engine makes threads.
        self._next: Iterator[Batch] = iter(self.loader)
        self._waited = 0.0

    def steps(self, count: int) -> Iterable[list[Batch]]:
        """The micro-batches of each step, handed out one step at a time; waiting for them is counted."""
        self._waited = 0.0
        for _ in range(count):
            start = self.clock()
            micro_batches = [next(self._next) for _ in range(self.grad_accum)]
            self._waited += self.clock() - start
            yield micro_batches

    def make(self, numbers: Sequence[int]) -> Iterator[list[Batch]]:
        """The micro-batches of these numbers, made here without workers, each in one part."""
        return ([self.batches[draw]] for draw in picked(self.order, numbers))

    def repeat(self, numbers: Sequence[int]) -> None:
        """Make these micro-batches beforehand, and cycle through them."""
        self._next = itertools.cycle([batch for (batch,) in self.make(numbers)])

    def waited(self) -> float | None:
        """Seconds that the last `steps` waited for batches; None if they were cached."""
        return None if isinstance(self._next, itertools.cycle) else self._waited


make = Loader
