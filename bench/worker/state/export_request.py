"""Asks for an export of what was trained, in a process of its own; imports no framework."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.launch.messages import ModelExported
from bench.launch.spec import WorkerSpec
from bench.worker.rank.child import ask_child

SPEC, TRAINED, BATCH = "spec.json", "trained.safetensors", "batch.safetensors"
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
    exported = ask_child(EXPORTER, folder, ModelExported)
    for name in (TRAINED, BATCH):
        (folder / name).unlink()
    return exported
