"""Looks at what is given, before any launch: `bench.launch.agents.run_module` runs `main`.

It writes its answer, or with status 2 a sentence that says what to correct.
"""

import json
import os
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from bench.config.data import Data
from bench.config.model import Model
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


def main(module: str, function: str, spec_path: str, answer_path: str) -> int:
    """Let a function of a module inspect what a file describes; the exit status."""
    spec = json.loads(Path(spec_path).read_text(encoding="utf-8"))
    spec["model"] = msgspec.convert(spec["model"], Model)
    if "data" in spec:
        spec["data"] = Data(**spec["data"])
    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # nothing is measured yet
    status, room = 0, 0.0
    if spec.get("device") != "cuda":  # which maps more than it uses
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        room = limit_to_available(1)
    try:
        answer = json.dumps(getattr(import_module(module), function)(**spec))
    except Exception as error:
        if (kind := status_of(error)) is None:
            raise
        traceback.print_exc()
        sentence = " ".join(in_a_line(error).split())
        if kind == "oom":
            sentence = f"{room:.1f} GiB are left, and do not suffice to try it; choose a smaller micro_batch"
        answer = sentence if sentence.endswith("?") else f"{sentence.rstrip('.')}."
        status = 2
    Path(answer_path).write_text(answer, encoding="utf-8")
    return status
