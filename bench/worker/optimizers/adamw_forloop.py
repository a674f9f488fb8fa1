"""torch's AdamW tensor by tensor, on every device."""

from collections.abc import Iterable
from typing import Any

import torch


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    # Without fused=False torch would still run the for-loop; a later torch may not.
    return torch.optim.AdamW(parameters, foreach=False, fused=False, **hyperparameters)
