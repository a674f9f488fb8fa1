"""ONNX Runtime's FusedAdam, which has CUDA kernels only."""

from collections.abc import Iterable
from typing import Any

import torch
from onnxruntime.training.optim.fused_adam import AdamWMode, FusedAdam


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    # Its defaults follow transformers' old AdamW (eps 1e-6, no decay); ADAMW_TORCH is torch's formula.
    return FusedAdam(parameters, adam_w_mode=AdamWMode.ADAMW_TORCH, **hyperparameters)
