"""`python -m bench.worker.workload.inspections MODULE FUNCTION PARENT_PID SPEC.json`: look at what is given.

A separate process before any launch: status 2 after a sentence on stdout if something has to be corrected.
"""

import json
import os
import sys
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from bench.config.data import Data
from bench.config.model import Model
from bench.launch.lifeline import die_with
from bench.machine.telemetry.host_memory import limit_to_available
from bench.worker.rank.error_words import in_a_line, status_of
from bench.worker.workload.synthetic import synthetic
from bench.worker.workload.tasks import Arrays
from bench.worker.workload.trial import try_model

FEW = 2  # samples of the batch that a model is tried with


def inspect_model(model: Model, *, seq_len: int | None, checkpointing: bool = False) -> list[str]:
    """Try a model on a random batch without padding; the names of weights that get no gradient."""

    def make(settings: Any) -> Arrays:
        data = Data(name="synthetic", lengths="full")
        made = partial(synthetic, data, task=model.task, settings=settings, count=1, seed=0, rank=0)
        return made(micro_batch=FEW, seq_len=seq_len)[0]

    remedy = "correct model.config" + (" or seq_len" if seq_len else "")
    return try_model(model, make, remedy=remedy, checkpointing=checkpointing)


def main() -> None:
    """Inspect what a file describes, and end this process."""
    module, function, parent, spec_path = sys.argv[1:]
    die_with(int(parent))
    spec = json.loads(Path(spec_path).read_text(encoding="utf-8"))
    spec["model"] = msgspec.convert(spec["model"], Model)
    if "data" in spec:
        spec["data"] = Data(**spec["data"])
    status, room = 0, 0.0
    if spec.get("device") != "cuda":  # which maps more than it uses
        room = limit_to_available(1)
    try:
        print(json.dumps(getattr(import_module(module), function)(**spec)))
    except Exception as error:
        if (kind := status_of(error)) is None:
            raise
        traceback.print_exc()
        sentence = " ".join(in_a_line(error).split())
        if kind == "oom":
            sentence = f"{room:.1f} GiB are left, and do not suffice to try it; choose a smaller micro_batch"
        print(sentence if sentence.endswith("?") else f"{sentence.rstrip('.')}.")
        status = 2
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # as a rank does: tearing frameworks down takes long and can fail


if __name__ == "__main__":
    main()
