"""transformers' Adafactor (Shazeer & Stern 2018, arXiv:1804.04235), as its Trainer makes it."""

from collections.abc import Iterable
from typing import Any

import torch
from transformers.optimization import Adafactor

SHARED = ("lr", "weight_decay")
"""The hyperparameters that it has in common with AdamW."""


def build(parameters: Iterable[torch.nn.Parameter], hyperparameters: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    shared = {name: hyperparameters[name] for name in SHARED}
    return Adafactor(parameters, scale_parameter=False, relative_step=False, **shared)
