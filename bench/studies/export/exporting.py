"""Exports what a backend has trained to ONNX, beside the outputs that the model itself gives in PyTorch.

`python -m bench.studies.export.exporting PARENT FOLDER` does it in a process of its own: ONNX Runtime
Training changes torch's exporter in a process that has imported it, and what that writes runs nowhere else.
"""

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from bench.launch.spec import WorkerSpec
from bench.studies.export.child import BATCH, SPEC, TRAINED, answer_parent
from bench.studies.export.files import MODEL, OUTPUT, TENSORS, input_key
from bench.studies.export.messages import ModelExported
from bench.worker.sharding import Batch, fill
from bench.worker.state import initial_state
from bench.worker.workload import model as models
from bench.worker.workload import own_module

LABELS = "labels"


def export(folder: Path) -> ModelExported:
    """Put trained weights into a model as plain as the reference's, and export it."""
    spec = WorkerSpec.load(folder / SPEC)
    torch.set_num_threads(spec.threads)
    model = models.build(spec.model, attention="eager", dropout=False)
    initial_state.read(model, Path(spec.initial_state))
    fill(model, load_file(folder / TRAINED))
    batch = load_file(folder / BATCH)
    if spec.model.module is None:
        inputs, compute = inference_inputs(model, batch), compute_scores
    else:
        inputs, compute = own_module.inputs_of(model, batch), own_module.first_output
    wrapped = models.Positional(model, inputs, compute).eval()
    with torch.no_grad():
        output = wrapped(*inputs.values())
        begun = time.perf_counter()
        how = exporter()
        torch.onnx.export(
            wrapped,
            tuple(inputs.values()),
            str(folder / MODEL),
            input_names=list(inputs),
            output_names=["output"],
            **how,
        )
    seconds = time.perf_counter() - begun
    tensors = {input_key(name): value.contiguous() for name, value in inputs.items()}
    save_file({**tensors, OUTPUT: output.contiguous()}, folder / TENSORS)
    ours = (SPEC, TRAINED, BATCH, TENSORS)  # whatever else there is, a large model's weights, belongs to it
    return ModelExported(
        bytes=sum(path.stat().st_size for path in folder.iterdir() if path.name not in ours),
        seconds=seconds,
        exporter=f"torch {torch.__version__}, opset {how['opset_version']}",
    )


def exporter() -> dict[str, Any]:
    """torch's own exporter, as a user of this torch has it.

    Today's follows torch.export and needs onnxscript, which writes opset 18. The pinned one traces.
    """
    if find_spec("onnxscript") is None:
        return {"dynamo": False, "opset_version": 17}
    return {"dynamo": True, "opset_version": 18}


def compute_scores(model: torch.nn.Module, inputs: Batch) -> torch.Tensor:
    """The model's first output: scores of classes, words or positions."""
    scores: torch.Tensor = model(**inputs, return_dict=False)[0]
    return scores


def inference_inputs(model: torch.nn.Module, batch: Batch) -> Batch:
    """A batch as it is after training: without labels, from which an encoder-decoder's words are made."""
    inputs = {name: value for name, value in batch.items() if name != LABELS}
    if model.config.is_encoder_decoder and LABELS in batch and "decoder_input_ids" not in inputs:
        inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch[LABELS])
    return inputs


if __name__ == "__main__":
    answer_parent(export)
