"""The training tasks: one module each, which names the model's head and makes random batches."""

from importlib import import_module
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bench.errors import LaunchFailed

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


def setting(settings: Any, key: str, default: Any = None) -> Any:
    """What a model's configuration, or one inside it such as CLIP's `vision_config`, has under a key.

    Raises:
        LaunchFailed: none of them has it, and there is no default.
    """
    inner = [value for value in vars(settings).values() if hasattr(value, "model_type")]
    values = (getattr(part, key, None) for part in (settings, *inner))
    value = next((value for value in values if value is not None), default)
    if value is None:
        raise LaunchFailed(
            "unsupported",
            f"{type(settings).__name__} has no {key}, which this task needs; set ++model.config.{key}=…, or "
            "choose another model.task.",
        )
    return value


def make(name: str) -> Task:
    """The task called `name`."""
    task: Task = import_module(f"bench.worker.workload.tasks.{name.replace('-', '_')}").Task()
    return task
