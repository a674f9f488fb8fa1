"""`python -m bench.worker.workload.inspections FUNCTION PARENT_PID SPEC.json`: look at what the user gives.

Before any launch, in a process of its own. It ends with status 2 after one sentence on stdout if the user has
something to correct.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.config.data import Data
from bench.config.model import Model
from bench.errors import LaunchFailed, UserError
from bench.launch.lifeline import die_with

LOOKED_AT = 2000
"""Images or sounds that are opened, evenly spread over the dataset; a damaged one beyond them ends the launch
that meets it, with the same sentence. Text is tokenized as a whole, so all of it is looked at."""

AT_ONCE = 16
"""Samples held in memory at a time."""


def inspect_model(model: Model, *, checkpointing: bool = False) -> Any:
    """Make the transformers configuration; `LaunchFailed` says what must be corrected in it."""
    from bench.worker.workload.model import check_head
    from bench.worker.workload.settings import configuration, naming_what_cannot_be_read

    with naming_what_cannot_be_read(model):
        settings = configuration(model)
        if not model.trust_remote_code:  # which may bring a head of its own
            check_head(settings, model.task, checkpointing=checkpointing)
    return settings


def inspect_dataset(
    model: Model, data: Data, *, settings: Any = None, seq_len: int | None, global_batch: int
) -> None:
    """Prepare the dataset, whose tokens the ranks then find in the cache of `datasets`, and open samples.

    The transformers configuration is the model's, unless `settings` are given.

    Raises:
        UserError: it cannot be used with this model.
    """
    from bench.worker.workload import preparation

    settings = settings or inspect_model(model)
    prepared = preparation.prepare(data, model, settings=settings, seq_len=seq_len, global_batch=global_batch)
    count = len(prepared.samples)
    numbers = np.unique(np.linspace(0, count - 1, num=min(count, LOOKED_AT)).astype(int)).tolist()
    random = np.random.default_rng(0)
    for start in range(0, len(numbers), AT_ONCE):
        prepared.batch(numbers[start : start + AT_ONCE], random)


def main() -> None:
    """Inspect what a file describes, and end this process."""
    function, parent, spec_path = sys.argv[1:]
    die_with(int(parent))
    spec = json.loads(Path(spec_path).read_text(encoding="utf-8"))
    spec["model"] = msgspec.convert(spec["model"], Model)
    status = 0
    try:
        if function == "inspect_module":
            from bench.worker.workload.inspect_module import inspect_module

            inspect_module(**spec)
        elif function == "inspect_dataset":
            inspect_dataset(**spec | {"data": Data(**spec["data"])})
        else:
            inspect_model(**spec)
    except (LaunchFailed, UserError) as error:
        traceback.print_exc()
        sentence = " ".join((error.message if isinstance(error, LaunchFailed) else str(error)).split())
        print(sentence if sentence.endswith("?") else f"{sentence.rstrip('.')}.")
        status = 2
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # as a rank does: tearing frameworks down takes long and can fail


if __name__ == "__main__":
    main()
