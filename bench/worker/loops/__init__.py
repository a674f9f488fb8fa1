"""Training loops as users have them, one module each, in place of the harness's own bare loop.

A loop does what a sharding does (`bench.worker.sharding.Sharding`): it wraps the module, makes a step and
proves what ran. Each rank trains by DDP, as all of these loops do by themselves.
"""

from importlib import import_module
from typing import Any

import torch

from bench.config.training import Precision
from bench.errors import LaunchFailed
from bench.worker.sharding import BuildOptimizer, Sharding


def make(
    name: str,
    module: torch.nn.Module,
    *,
    build_optimizer: BuildOptimizer,
    device: torch.device,
    micro_batch: int,
    grad_accum: int,
    precision: Precision,
) -> Sharding:
    """The loop called `name` around `module`, which is on `device` and holds the initial weights.

    Raises:
        LaunchFailed: status `unsupported`, if its package is missing or it cannot do the precision.
    """
    if precision.initial_scale is not None:
        raise LaunchFailed(
            "unsupported",
            f"loop={name} is not tried with the scaled loss of fp16; choose precision=bf16 or fp32",
        )
    try:
        loop: Any = import_module(f"bench.worker.loops.{name}").Loop
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise LaunchFailed(
            "unsupported",
            f"loop={name} needs the package {package}, which this environment does not have; install it "
            "there, or choose another loop",
        ) from error
    made: Sharding = loop(
        module, build_optimizer=build_optimizer, device=device, micro_batch=micro_batch, grad_accum=grad_accum
    )
    return made
