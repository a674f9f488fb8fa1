"""Reads a dataset once before any launch, in a separate process: `bench.worker.workload.inspections`."""

from typing import Any

import numpy as np

from bench.config.data import Data
from bench.config.model import Model
from bench.plugins.hf import preparation
from bench.worker.workload.tasks import Arrays
from bench.worker.workload.trial import try_model

LOOKED_AT = 2000
"""Images or sounds that are opened, evenly spread over the dataset; a damaged one beyond them ends the launch
that meets it, with the same sentence. Text is tokenized as a whole, so all of it is looked at."""

AT_ONCE = 16  # samples held in memory at a time


def inspect_dataset(
    model: Model, data: Data, *, seq_len: int | None, global_batch: int, checkpointing: bool = False
) -> list[str]:
    """Prepare the dataset, look into it, and try the model on its highest ids and longest text."""

    def make(settings: Any) -> Arrays:
        prepared = prepare_dataset(model, data, settings=settings, seq_len=seq_len, global_batch=global_batch)
        return prepared.batch(prepared.extremes(), np.random.default_rng(0))

    remedy = "choose the model's own tokenizer or processor, or correct model.config"
    return try_model(model, make, remedy=remedy, checkpointing=checkpointing)


def prepare_dataset(
    model: Model, data: Data, *, settings: Any, seq_len: int | None, global_batch: int
) -> Any:
    """Prepare the dataset, whose tokens the ranks then find in the cache of `datasets`, and open samples."""
    prepared = preparation.prepare(data, model, settings=settings, seq_len=seq_len, global_batch=global_batch)
    count = len(prepared.samples)
    numbers = np.unique(np.linspace(0, count - 1, num=min(count, LOOKED_AT)).astype(int)).tolist()
    random = np.random.default_rng(0)
    for start in range(0, len(numbers), AT_ONCE):
        prepared.batch(numbers[start : start + AT_ONCE], random)
    return prepared
