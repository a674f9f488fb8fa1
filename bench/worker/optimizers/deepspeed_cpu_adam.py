"""DeepSpeed's Adam for states on the host, with vector instructions."""

from collections.abc import Iterable
from typing import Any

import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    return DeepSpeedCPUAdam(parameters, adamw_mode=True, **hyperparameters)
