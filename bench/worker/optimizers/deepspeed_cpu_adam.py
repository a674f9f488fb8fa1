"""DeepSpeed's Adam for states on the host, with vector instructions."""

from collections.abc import Iterable
from typing import Any

import torch
from deepspeed import git_version_info
from deepspeed.accelerator import get_accelerator
from deepspeed.ops.adam import DeepSpeedCPUAdam


def build(parameters: Iterable[torch.nn.Parameter], **hyperparameters: Any) -> torch.optim.Optimizer:
    """The optimizer of these parameters."""
    if git_version_info.installed_ops.get("cpu_adam"):
        # Compiled for DeepSpeed's CPU accelerator, but from the same sources as for CUDA, with no CUDA in it.
        # DeepSpeed would compile it again, behind a lock file that a killed process leaves for ever.
        git_version_info.accelerator_name = get_accelerator()._name
    return DeepSpeedCPUAdam(parameters, adamw_mode=True, **hyperparameters)
