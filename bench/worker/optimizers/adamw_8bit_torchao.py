"""torchao's AdamW, with moments of 8 bits in blocks; its step is compiled."""

from collections.abc import Iterable
from typing import Any

import torch

from bench.worker.optimizers._torchao import low_bit_optim


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    return low_bit_optim().AdamW8bit(parameters, **hyperparameters)
