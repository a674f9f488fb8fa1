"""Prepares the samples of real datasets as a task's training script would; one module for each task.

Nothing here imports torch: `bench.worker.workload.loader` makes tensors of the arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from bench.config.data import Data
from bench.config.model import Model
from bench.errors import UserError
from bench.worker.workload.preparation import processors, source
from bench.worker.workload.tasks import Arrays


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a preparation may look at."""

    data: Data
    model: str  # its name, for messages
    settings: Any  # the model's transformers configuration
    processor: Any  # tokenizer, image processor or speech processor
    seq_len: int | None

    def where(self, column: str) -> str:
        """For messages: the dataset's own name of a task's column."""
        return f"column {self.data.columns.get(column, column)} of data.path={self.data.path}"

    @property
    def padded(self) -> dict[str, Any]:
        """What makes a tokenizer cut off or pad every text to `seq_len`."""
        return {"padding": "max_length", "truncation": True, "max_length": self.seq_len}


class Samples(Protocol):
    """Samples by their number: prepared beforehand, or when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, numbers: list[int]) -> list[Arrays]: ...


class Preparation(Protocol):
    """How a task's samples are made of a dataset's rows."""

    columns: tuple[str, ...]
    """Needed; `data.columns` gives them the dataset's names."""

    optional: tuple[str, ...] = ()
    """Used only where `data.columns` names them."""

    processor: str = "AutoTokenizer"
    """The transformers class that loads the processor, an `Auto…`."""

    def samples(self, dataset: Any, context: Context) -> Samples:
        """The samples of a dataset whose columns have the task's names.

        Raises:
            UserError: the dataset, the processor and the model do not fit each other.
        """

    def batch(self, samples: Sequence[Arrays], context: Context, random: np.random.Generator) -> Arrays:
        """A micro-batch; `random` decides what is new in every epoch: by default nothing."""
        del context, random
        return stacked(samples)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A dataset that is ready to be batched."""

    preparation: Preparation
    context: Context
    samples: Samples

    def batch(self, numbers: Sequence[int], random: np.random.Generator) -> Arrays:
        """The micro-batch of these samples."""
        return self.preparation.batch(self.samples[list(numbers)], self.context, random)


class Empty:
    """The samples of a dataset without rows, for which libraries have all kinds of errors."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, numbers: list[int]) -> list[Arrays]:
        raise IndexError(numbers)


def make(task: str) -> Preparation:
    """The preparation of the task called `task`."""
    made: Preparation = import_module(
        f"bench.worker.workload.preparation.{task.replace('-', '_')}"
    ).Preparation()
    return made


def prepare(data: Data, model: Model, *, settings: Any, seq_len: int | None, global_batch: int) -> Prepared:
    """Load the dataset and the processor that `data` names, and make the samples.

    What is tokenized beforehand is kept in the cache of Hugging Face's `datasets`, so that the ranks of all
    launches find what `bench.worker.workload.inspect_dataset` has made.

    Args:
        data: which dataset, split, columns and processor.
        model: says what is learnt, and its name for messages.
        settings: the model's transformers configuration.
        seq_len: positions of a sample, padding included; None where it has none.
        global_batch: samples of an optimizer step, which the dataset must hold at least.

    Raises:
        UserError: something is missing, damaged, or does not fit; the sentence says what and the remedy.
    """
    preparation = make(model.task)
    processor = processors.load(preparation.processor, data.processor)
    context = Context(data=data, model=model.name, settings=settings, processor=processor, seq_len=seq_len)
    dataset = source.named(source.load(data), data, model.task, preparation.columns, preparation.optional)
    samples: Samples = preparation.samples(dataset, context) if len(dataset) else Empty()
    if len(samples) < global_batch:
        raise UserError(
            f"data.path={data.path} holds {len(samples):,} samples in data.split={data.split}, fewer than "
            f"the {global_batch:,} of one step; choose a smaller micro_batch or a larger dataset."
        )
    return Prepared(preparation=preparation, context=context, samples=samples)


def stacked(samples: Sequence[Arrays]) -> Arrays:
    """The samples' arrays along a new first axis."""
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
