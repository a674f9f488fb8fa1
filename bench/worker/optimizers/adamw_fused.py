"""torch's AdamW in one kernel for each list of tensors."""

from collections.abc import Iterable
from typing import Any

import torch


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    return torch.optim.AdamW(parameters, fused=True, **hyperparameters)
