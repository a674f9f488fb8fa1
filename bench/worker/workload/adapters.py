"""Adds low-rank adapters (peft) to a model, whose class, inputs and configuration stay as they are."""

from importlib import import_module
from typing import Any

import torch

from bench.config.model import Lora
from bench.errors import LaunchFailed


def add(model: torch.nn.Module, lora: Lora, *, dropout: bool) -> None:
    """Give the named linear layers of a model, in place, an adapter each; nothing else trains afterwards.

    Not even a new classifier does, as in the published script (huggingface/optimum,
    examples/onnxruntime/training/text-classification/run_classification.py).

    Raises:
        LaunchFailed: the model has no layers of these names, or peft is not installed.
    """
    try:
        peft: Any = import_module("peft")
    except ImportError as error:
        raise LaunchFailed(
            "crashed", "model.lora needs peft, which is not installed; run `make setup`."
        ) from error

    settings = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout if dropout else 0.0,
        target_modules=list(lora.modules),
    )
    missing = [name for name in lora.modules if not _has(model, name)]
    if missing:
        raise LaunchFailed(
            "unsupported",
            f"{type(model).__name__} has no layer named {' or '.join(missing)}; set model.lora.modules=[…] "
            "to names of its own linear layers.",
        )
    peft.inject_adapter_in_model(settings, model)


def _has(model: torch.nn.Module, name: str) -> bool:
    return any(path == name or path.endswith(f".{name}") for path, _ in model.named_modules())
