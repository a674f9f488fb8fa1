"""Whole comparisons of tiny models whose ranks live in this process: real training, no process to start.

Ranks of a group train independently, each on its own batches, as one rank does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.config.schema import Config
from bench.errors import LaunchFailed
from bench.launch.messages import A, Built, Request
from bench.launch.spec import WorkerSpec
from bench.measure.comparison import Comparison
from bench.worker.rank.error_words import in_a_line
from bench.worker.rank.rank import Rank
from bench.worker.rank.training import Training
from tests.support.comparisons import RecordingBar, find_nobody
from tests.support.process_group import one_rank

Plant = Callable[[Any, int], None]
"""Puts a fault into a training; gets the rank."""


class HereRank(Rank):
    """Builds in this process, and measures nothing but steps."""

    def __init__(self, spec: WorkerSpec, rank: int, plant: Plant | None) -> None:
        super().__init__(spec, rank=rank, local_rank=0)
        self.plant = plant

    def build(self) -> Built:
        start = self.clock()
        self.training = training = Training(self.spec, rank=self.rank, device=torch.device("cpu"))
        training.proof = lambda: {  # type: ignore[method-assign]
            "engine": training.engine.proof(training.sharding.loss_function)
        }
        if self.plant:
            self.plant(training, self.rank)
        self.meter.prepare(new_peak=False)
        self.meter.start()
        return self._built(start)


class HereGroup:
    """Stands for bench.launch.group.Group."""

    def __init__(
        self, plants: dict[str, Plant], spec: WorkerSpec, *, world_size: int, folder: Path, **_: Any
    ) -> None:
        folder.mkdir(parents=True)
        self.ranks = [HereRank(spec, rank, plants.get(spec.backend)) for rank in range(world_size)]

    def __enter__(self) -> "HereGroup":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Request[A]) -> None:
        pass

    def answers(self, request: Request[A]) -> list[Any]:
        try:
            return [rank.answer(request) for rank in self.ranks]
        except LaunchFailed:
            raise
        except Exception as error:
            raise LaunchFailed(self.ranks[0].status_of(error), in_a_line(error)) from error

    def request(self, request: Request[A], _: object = None) -> list[Any]:
        return self.answers(request)

    def log_tail(self) -> str:
        return ""

    def connect(self) -> None:
        pass

    pause = end = close = connect


def failures(config: Config, plants: dict[str, Plant]) -> list[tuple[str, int, str, str]]:
    """Backend, launch, status and message of every launch that did not end well."""
    start: Any = partial(HereGroup, plants)
    comparison = Comparison(config, "m-cpux2", start_group=start, scan=find_nobody, bar=RecordingBar())
    comparison.shared.when_trained.clear()  # nobody counts and multiplies here
    comparison.measure()
    rows = comparison.shared.ledger.rows()
    failed = rows[rows["round"].isna() & (rows["status"] != "untimed")]
    return [(row.backend, int(row.launch), row.status, row.message) for row in failed.itertuples()]


@contextmanager
def one_thread() -> Iterator[None]:
    """A process group of this process alone, which computes with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_rank():
            yield
    finally:
        torch.set_num_threads(threads)
