"""`python -m bench.worker.on_device.prepare PARENT FOLDER SPEC.json`: make what a device trains from.

The model is built and filled as every backend's, exported with its loss, and given its gradient and its
optimizer by `onnxruntime.training.artifacts`.
"""

import gc
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from onnxruntime.training import artifacts, onnxblock
from safetensors.torch import save_file

from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.worker.on_device.files import BATCHES, OPTIMIZER, DeviceFiles, batch_key
from bench.worker.rank.child import answer_parent
from bench.worker.sharding import Batch, trained_by_name
from bench.worker.state import initial_state
from bench.worker.workload import feeds
from bench.worker.workload import model as models
from bench.worker.workload.feeds import Feed

OPSET = 15
"""The last in which torch writes a layer normalisation as operators that ONNX Runtime 1.19.2 differentiates
where artifacts are made: opset 17 has it as one operator with outputs that the gradient expects and torch
leaves out."""

EXPORTED = "forward.onnx"

RUNNING = "running_mean"  # the end of the name of a batch norm's statistics
UPDATE = "AdamWOptimizer"  # the operator of the optimizer model that updates weights

MODE, TORCH_MODE = "adam_mode", 0
"""The attribute of `UPDATE` that says whose AdamW it is, and its value for torch's (ONNX Runtime's
docs/ContribOperators.md)."""


class FirstOutput(onnxblock.Block):
    """The loss that the exported model has already."""

    def build(self, loss: str, *_: str) -> str:
        """The name of the loss."""
        return loss


def prepare(folder: Path, spec_path: Path) -> DeviceFiles:
    """Write artifacts and batches into `folder`, and return what is known of them, or else `unsupported`."""
    gc.disable()  # it would only cost time
    spec = WorkerSpec.load(spec_path)
    onnxruntime.set_default_logger_severity(3)  # else a line for every optimisation that it tries
    torch.set_num_threads(spec.threads)
    torch.manual_seed(spec.seed)
    model = models.build(spec.model, attention=spec.attention, dropout=spec.dropout, backend=spec.backend)
    initial_state.load(model, spec, 0, torch.device("cpu"))
    statistics = next((name for name, _ in model.named_buffers() if name.endswith(RUNNING)), None)
    if statistics is not None:
        raise LaunchFailed(
            "unsupported",
            f"engine=on_device does not keep the running statistics of a batch norm ({statistics})",
        )
    feed = feeds.make(spec, model, rank=0, world_size=1, pinned=False)
    batches = _batches(spec, feed)
    inputs = list(batches[0])
    compute = partial(compute_share, micro_batches=spec.passes)
    wrapped = models.Positional(model, inputs, compute).train()
    trained = {f"model.{name}": name for name, _ in trained_by_name(model)}
    exported = _export(wrapped, batches[0], folder)
    _generate(exported, list(trained), folder, spec)
    save_file(
        {
            batch_key(number, name): value.contiguous()
            for number, batch in enumerate(batches)
            for name, value in batch.items()
        },
        folder / BATCHES,
    )
    return DeviceFiles(
        facts=models.facts_of(model, spec.attention) | {"padding_share": feed.padding_share},
        batches=len(batches),
        inputs=inputs,
        names=trained,
        optimizer=_update_as_torch_does(folder / OPTIMIZER),
    )


def compute_share(model: torch.nn.Module, batch: Batch, *, micro_batches: int) -> torch.Tensor:
    """A micro-batch's share of a step's loss, so that the gradients of all add up to their mean."""
    loss: torch.Tensor = model(**batch).loss
    return loss / micro_batches if micro_batches > 1 else loss


def _batches(spec: WorkerSpec, feed: Feed) -> list[Batch]:
    """Every distinct micro-batch once, in the order in which every backend trains them."""
    distinct = max(spec.data.batches, 2 * spec.grad_accum)  # as bench.worker.workload.feeds makes them
    steps = distinct // math.gcd(distinct, spec.grad_accum)
    every = [batch for step in feed.steps(steps) for batch in step]
    return every[: distinct * spec.accumulate]


def _export(wrapped: models.Positional, batch: Batch, folder: Path) -> onnx.ModelProto:
    """The model with its loss as ONNX; weights keep their names, since nothing is folded."""
    path = folder / EXPORTED
    torch.onnx.export(
        wrapped,
        tuple(batch.values()),
        str(path),
        input_names=list(batch),
        output_names=["loss"],
        opset_version=OPSET,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        dynamo=False,
    )
    exported = onnx.load(path)
    path.unlink()
    return exported


def _generate(exported: onnx.ModelProto, trained: Sequence[str], folder: Path, spec: WorkerSpec) -> None:
    """Gradient and optimizer, as ONNX Runtime makes them."""
    weights = [initializer.name for initializer in exported.graph.initializer]
    missing = [name for name in trained if name not in weights]
    if missing:
        raise LaunchFailed(
            "unsupported", f"the exported model lacks {len(missing)} weights, such as {missing[0]}"
        )
    adam = spec.adam
    artifacts.generate_artifacts(
        exported,
        requires_grad=list(trained),
        frozen_params=[name for name in weights if name not in set(trained)],
        loss=FirstOutput(),
        optimizer=onnxblock.optim.AdamW(
            bias_correction=True, betas=(adam.beta1, adam.beta2), eps=adam.eps, weight_decay=adam.weight_decay
        ),
        artifact_directory=folder,
    )


def _update_as_torch_does(path: Path) -> dict[str, float | int]:
    """Switch the optimizer model to torch's AdamW; the attributes of its updates, read back from the file.

    It comes with that of older transformers, which adds eps before the bias is corrected and decays weights
    after the update. `LaunchFailed` if not all updates have the same attributes.
    """
    model = onnx.load(path)
    for node in model.graph.node:
        if node.op_type == UPDATE:
            others = [attribute for attribute in node.attribute if attribute.name != MODE]
            del node.attribute[:]
            node.attribute.extend([*others, onnx.helper.make_attribute(MODE, TORCH_MODE)])
    onnx.save(model, path)
    updates: list[dict[str, Any]] = [
        {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        for node in onnx.load(path).graph.node
        if node.op_type == UPDATE
    ]
    if not updates or any(update != updates[0] for update in updates):
        raise LaunchFailed("invalid", f"the optimizer model has {len(updates)} different updates")
    return updates[0]


if __name__ == "__main__":
    answer_parent(prepare, refusal="no artifacts for training on a device could be made")
