"""bitsandbytes' AdamW, with moments of 8 bits in blocks (Dettmers et al. 2021, arXiv:2110.02861).

Those of tensors with less than 4,096 elements stay in fp32.
"""

from collections.abc import Iterable
from typing import Any

import torch
from bitsandbytes.optim import AdamW8bit


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    return AdamW8bit(parameters, **hyperparameters)
