"""Exports what a backend has trained to ONNX, beside the outputs that the model itself gives in PyTorch.

`python -m bench.worker.exporting FOLDER PARENT` does it in a process of its own: ONNX Runtime Training
changes torch's exporter in a process that has imported it, and what that writes runs nowhere else.
"""

import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

import msgspec
import torch
from safetensors.torch import load_file, save_file

from bench.config.choices import WITHOUT_WHOLE_WEIGHTS
from bench.errors import LaunchFailed
from bench.launch.exported_files import MODEL, TENSORS, input_key, output_key
from bench.launch.lifeline import die_with
from bench.launch.messages import ModelExported
from bench.launch.spec import WorkerSpec
from bench.worker.rank import in_a_line
from bench.worker.sharding import fill, held
from bench.worker.workload import model as models
from bench.worker.workload.feed import Batch

OPSET = 17
"""Which torch 2.6 writes, and ONNX Runtime 1.19.2 reads."""

LABELS = "labels"
SPEC, TRAINED, BATCH, EXPORTED, FAILURE = (
    "spec.json",
    "trained.safetensors",
    "batch.safetensors",
    "exported.json",
    "failure.txt",
)


class Inference(torch.nn.Module):
    """A model with its inputs as arguments, and its first output alone."""

    def __init__(self, model: torch.nn.Module, inputs: list[str]) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """The scores: of classes, words or positions."""
        output: torch.Tensor = self.model(**dict(zip(self.inputs, values, strict=True)), return_dict=False)[0]
        return output


def export(trained: torch.nn.Module, spec: WorkerSpec, batch: Batch, folder: Path) -> ModelExported:
    """Write a trained model down and have it exported.

    Args:
        trained: the model under its own names, with whole weights.
        spec: what was trained.
        batch: a micro-batch, for the inputs.
        folder: where the exported model, its inputs and its outputs go.

    Raises:
        LaunchFailed: status `unsupported`, if no rank has all the weights, or the exporter cannot do it.
    """
    if spec.sharding in WITHOUT_WHOLE_WEIGHTS:
        raise LaunchFailed(
            "unsupported", f"sharding={spec.sharding} leaves no rank the whole weights that an export needs"
        )
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(folder / SPEC)
    # DeepSpeed's weights are views of one flat tensor: each is written as one of its own.
    weights = {name: value.detach().cpu().clone() for name, value in held(trained)}
    save_file(weights, folder / TRAINED)
    save_file({name: value.contiguous() for name, value in batch.items()}, folder / BATCH)
    command = [sys.executable, "-m", "bench.worker.exporting", str(folder), str(os.getpid())]
    ended = subprocess.run(command, check=False)
    failure, exported = folder / FAILURE, folder / EXPORTED
    if failure.exists():
        raise LaunchFailed("unsupported", f"it cannot be exported: {failure.read_text(encoding='utf-8')}")
    if ended.returncode != 0:
        raise LaunchFailed("crashed", f"exporting ended with exit status {ended.returncode}")
    for name in (TRAINED, BATCH):
        (folder / name).unlink()
    return msgspec.json.decode(exported.read_bytes(), type=ModelExported)


def export_alone(folder: Path) -> ModelExported:
    """Put trained weights into a model as plain as the reference's, and export that.

    Args:
        folder: in which `export` has written all that is needed.
    """
    spec = WorkerSpec.load(folder / SPEC)
    torch.set_num_threads(spec.threads)
    model = models.build(spec.model, attention="eager", dropout=False)
    fill(model, load_file(folder / TRAINED))
    inputs = inference_inputs(model, load_file(folder / BATCH))
    wrapped = Inference(model, list(inputs)).eval()
    with torch.no_grad():
        output = wrapped(*inputs.values())
        begun = time.perf_counter()
        torch.onnx.export(
            wrapped,
            tuple(inputs.values()),
            str(folder / MODEL),
            input_names=list(inputs),
            output_names=["output"],
            opset_version=OPSET,
            dynamo=False,
        )
    seconds = time.perf_counter() - begun
    tensors = {input_key(name): value.contiguous() for name, value in inputs.items()}
    save_file({**tensors, output_key(): output.contiguous()}, folder / TENSORS)
    ours = (SPEC, TRAINED, BATCH, TENSORS)  # whatever else there is, a large model's weights, belongs to it
    return ModelExported(
        bytes=sum(path.stat().st_size for path in folder.iterdir() if path.name not in ours),
        seconds=seconds,
        exporter=f"torch {torch.__version__}, opset {OPSET}",
    )


def inference_inputs(model: torch.nn.Module, batch: Batch) -> Batch:
    """A batch as it is after training: without labels, from which an encoder-decoder's words are made."""
    inputs = {name: value for name, value in batch.items() if name != LABELS}
    if model.config.is_encoder_decoder and LABELS in batch and "decoder_input_ids" not in inputs:
        inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(batch[LABELS])
    return inputs


def main() -> None:
    """Write down what was exported, or why it could not be."""
    folder = Path(sys.argv[1])
    die_with(int(sys.argv[2]))
    try:
        exported = export_alone(folder)
    except OSError:
        raise  # such as a full disk
    except Exception as error:
        traceback.print_exc()
        (folder / FAILURE).write_text(in_a_line(error), encoding="utf-8")
    else:
        (folder / EXPORTED).write_bytes(msgspec.json.encode(exported))


if __name__ == "__main__":
    main()
