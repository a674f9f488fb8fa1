"""torch's Adafactor (Shazeer & Stern 2018, arXiv:1804.04235): second moments are a row and a column.

It has no first ones. Its learning rate is relative to a parameter's root mean square, and at
step t at most 1/√t.
"""

from collections.abc import Iterable
from typing import Any

import torch

SHARED = ("lr", "weight_decay")
"""The hyperparameters that it has in common with AdamW."""


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    return torch.optim.Adafactor(parameters, **{name: hyperparameters[name] for name in SHARED})
