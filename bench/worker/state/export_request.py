"""Asks for an export of what was trained: in a process of its own, through files; imports no framework."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.errors import LaunchFailed
from bench.launch.messages import ModelExported
from bench.launch.spec import WorkerSpec

SPEC, TRAINED, BATCH, EXPORTED, FAILURE = (
    "spec.json",
    "trained.safetensors",
    "batch.safetensors",
    "exported.json",
    "failure.txt",
)
"""What lies in the folder beside the exported model until that is done."""

EXPORTER = "bench.worker.state.exporting"


def request_export(
    folder: Path,
    spec: WorkerSpec,
    save_file: Callable[[dict[str, Any], Path], None],
    *,
    trained: Mapping[str, Any],
    batch: Mapping[str, Any],
) -> ModelExported:
    """Write down what was trained and have it exported.

    Args:
        folder: where the exported model, its inputs and its outputs go.
        spec: what was trained; the weights that it began with are still there.
        save_file: of safetensors, for arrays or for tensors.
        trained: weights and buffers by their names in the model; the others are as they were.
        batch: a micro-batch, for the inputs.

    Raises:
        LaunchFailed: status `unsupported`, if the exporter cannot do it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(folder / SPEC)
    save_file(dict(trained), folder / TRAINED)
    save_file(dict(batch), folder / BATCH)
    ended = subprocess.run([sys.executable, "-m", EXPORTER, str(folder), str(os.getpid())], check=False)
    failure, exported = folder / FAILURE, folder / EXPORTED
    if failure.exists():
        raise LaunchFailed("unsupported", f"it cannot be exported: {failure.read_text(encoding='utf-8')}")
    if ended.returncode != 0:
        raise LaunchFailed("crashed", f"exporting ended with exit status {ended.returncode}")
    for name in (TRAINED, BATCH):
        (folder / name).unlink()
    return msgspec.json.decode(exported.read_bytes(), type=ModelExported)
