"""torch's AdamW over lists of tensors."""

from collections.abc import Iterable
from typing import Any

import torch


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    return torch.optim.AdamW(parameters, foreach=True, **hyperparameters)
