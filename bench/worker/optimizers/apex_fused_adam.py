"""apex's FusedAdam, which has CUDA kernels only, with decoupled weight decay."""

from collections.abc import Iterable
from typing import Any

import torch
from apex.optimizers import FusedAdam


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    return FusedAdam(parameters, adam_w_mode=True, **hyperparameters)
