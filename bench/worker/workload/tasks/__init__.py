"""The training tasks: one module each, which names the model's head and makes random batches."""

from importlib import import_module
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]
"""A micro-batch: the names of the model's inputs, each an array whose first axis is the sample."""

IGNORED = -100
"""The label that torch's cross entropy leaves out."""


class Task(Protocol):
    """What a task makes of a model's configuration."""

    head: str
    """The transformers class that holds the head, an `AutoModelFor…`."""

    def synthetic(
        self, settings: Any, *, lengths: Integers, seq_len: int | None, random: np.random.Generator
    ) -> Arrays:
        """A random micro-batch.

        Args:
            settings: the model's transformers configuration.
            lengths: of each sample without its padding, shape (micro_batch,), at least 1, at most `seq_len`.
            seq_len: positions of a sample; None where it has none.
            random: makes everything else.
        """


def make(name: str) -> Task:
    """The task called `name`."""
    task: Task = import_module(f"bench.worker.workload.tasks.{name.replace('-', '_')}").Task()
    return task
