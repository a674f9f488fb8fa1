"""The weights that every backend of a comparison starts from: the reference's group saves them."""

import itertools
from pathlib import Path

import torch
import torch.distributed
import transformers
from safetensors import safe_open
from safetensors.torch import load_model, save_model

from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.worker.workload.model import NOTE


def save(model: torch.nn.Module, spec: WorkerSpec, rank: int) -> None:
    """Write the model's weights and buffers, on rank 0; the others wait for it."""
    if rank == 0:
        save_model(model, spec.initial_state, metadata={NOTE: str(getattr(model, NOTE, ""))})
    torch.distributed.barrier()


def load(model: torch.nn.Module, spec: WorkerSpec, rank: int, device: torch.device) -> None:
    """Fill `model`, which is on the CPU; on several nodes rank 0 reads, and sends it to the others."""
    if spec.nnodes == 1 or rank == 0:
        read(model, Path(spec.initial_state))
    if spec.nnodes > 1:
        for tensor in itertools.chain(model.parameters(), model.buffers()):
            sent = tensor.detach().to(device)  # NCCL sends what is on a GPU
            torch.distributed.broadcast(sent, src=0)
            tensor.detach().copy_(sent)


def read_note(spec: WorkerSpec) -> str:
    """What was said of the checkpoint when its weights were loaded; empty on a node without the file."""
    if not Path(spec.initial_state).exists():
        return ""
    with safe_open(spec.initial_state, framework="pt") as file:
        return str(file.metadata()[NOTE])


def read(model: torch.nn.Module, path: Path) -> None:
    """Fill `model`, which is on the CPU, from the file; `unsupported` if this stack has other names."""
    missing, unexpected = load_model(model, path, strict=False)
    if missing or unexpected:
        raise LaunchFailed(
            "unsupported",
            f"transformers {transformers.__version__} has other weights than the reference's: "
            f"{len(missing)} of its own are missing ({', '.join(sorted(missing)[:2])}), "
            f"{len(unexpected)} are unknown to it ({', '.join(sorted(unexpected)[:2])})",
        )
