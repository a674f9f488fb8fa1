"""torch's AdamW as it is by default: over lists of tensors on a GPU, tensor by tensor on a CPU."""

from collections.abc import Iterable
from typing import Any

import torch


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    return torch.optim.AdamW(parameters, **hyperparameters)
