"""Reads a dataset once, before any launch: checks that it fits the task and the model, and tokenizes it.

The ranks find the tokens in the cache of `datasets`.
"""

from typing import Any

import msgspec
import numpy as np

from bench.config.data import Data
from bench.config.model import Model
from bench.errors import UserError
from bench.worker.workload import preparation
from bench.worker.workload.inspecting import end_after
from bench.worker.workload.preparation.source import first_words

LOOKED_AT = 2000
"""Images or sounds that are opened, evenly spread over the dataset; a damaged one beyond them ends the launch
that meets it, with the same sentence. Text is tokenized as a whole, so all of it is looked at."""

AT_ONCE = 16
"""Samples held in memory at a time."""


def inspect_dataset(
    data: Data, model: Model, *, settings: Any, seq_len: int | None, global_batch: int
) -> None:
    """Prepare the dataset and open samples of it.

    Raises:
        UserError: it cannot be used with this model.
    """
    prepared = preparation.prepare(data, model, settings=settings, seq_len=seq_len, global_batch=global_batch)
    count = len(prepared.samples)
    numbers = np.unique(np.linspace(0, count - 1, num=min(count, LOOKED_AT)).astype(int)).tolist()
    random = np.random.default_rng(0)
    for start in range(0, len(numbers), AT_ONCE):
        prepared.batch(numbers[start : start + AT_ONCE], random)


def _settings(model: Model) -> Any:
    from bench.worker.workload.settings import configuration  # imports torch

    try:
        return configuration(model)
    except (OSError, ValueError) as error:
        if model.pretrained is None:
            raise
        raise UserError(
            f"model.pretrained={model.pretrained} cannot be loaded: {first_words(error)}; give a folder with "
            "config.json and model.safetensors in it, or the id of a model on the hub."
        ) from error


def _inspect(plain: dict[str, Any]) -> None:
    model = msgspec.convert(plain["model"], Model)
    inspect_dataset(
        Data(**plain["data"]),
        model,
        settings=_settings(model),
        seq_len=plain["seq_len"],
        global_batch=plain["global_batch"],
    )


if __name__ == "__main__":
    end_after(_inspect)
