"""DeepSpeed ZeRO stage 1 in DeepSpeed's own bf16 or fp16 mode, as its users have it.

Weights and gradients have 16 bits, also where gradients are added up and averaged; each rank updates fp32
copies of its part of the weights. Nothing is autocast: layer norms, softmax and the loss have 16 bits, too.
DeepSpeed's own scaler scales the loss of fp16, by 1 or more; 0.16.9 halves a gradient as it doubles the scale
(see `_zero.Scaler`), 0.19.8 doubles it a step later than configured.
"""

import math
from collections.abc import Iterator
from typing import Any

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.utils import safe_get_full_fp32_param

from bench.errors import LaunchFailed
from bench.launch.spec import WorkerSpec
from bench.worker.sharding import Batch, _zero, trained, trained_by_name
from bench.worker.workload.precision import SIXTEEN_BITS

AT_MINIMUM = "loss scale already at minimum"
"""In the message of the bare Exception by which DeepSpeed's scaler gives up."""


class Sharding(_zero.Sharding):
    """ZeRO with stage 1 around a module whose weights DeepSpeed casts."""

    stage = 1
    autocasts = False

    def mode(self, spec: WorkerSpec) -> dict[str, Any]:
        """DeepSpeed's section for the precision; `unsupported` if it has no such mode on this device."""
        accelerator = get_accelerator()
        supports = {"bf16": accelerator.is_bf16_supported, "fp16": accelerator.is_fp16_supported}
        if not supports[self.precision]():
            raise LaunchFailed(
                "unsupported",
                f"DeepSpeed {deepspeed.__version__} says that {accelerator.device_name()} has no "
                f"{self.precision} here, so that its own {self.precision} mode cannot run",
            )
        return {self.precision: {"enabled": True, **_scaling(spec)}}

    def own_scaler(self, spec: WorkerSpec) -> None:
        """None: DeepSpeed scales the loss."""

    def inputs(self, batch: Batch) -> Batch:
        """Pictures and sounds are cast, since nothing else does; transformers' Trainer casts them, too."""
        dtype = SIXTEEN_BITS[self.precision]
        return {
            name: value.to(dtype) if value.is_floating_point() else value for name, value in batch.items()
        }

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The fp32 copies: a weight of 16 bits may be too coarse to move in a few steps."""
        for name, one in trained_by_name(self.model):
            yield name, safe_get_full_fp32_param(one)

    def take_step(self) -> None:
        """DeepSpeed's step; `diverged` if the gradient overflows with the loss as it is."""
        try:
            super().take_step()
        except Exception as error:
            if AT_MINIMUM not in str(error):
                raise
            raise LaunchFailed("diverged", "the gradient overflows in fp16 even with a scale of 1") from error

    def proof(self) -> dict[str, Any]:
        """What the stage proves, and the types of weights, gradients and of what is updated."""
        wanted = str(SIXTEEN_BITS[self.precision])
        enabled = {"bf16": self.engine.bfloat16_enabled(), "fp16": self.engine.fp16_enabled()}
        modes = [name for name, on in enabled.items() if on]
        weights = sorted({str(parameter.dtype) for parameter in trained(self.model)})
        gradients = str(self.zero.gradient_accumulation_dtype)
        master = sorted({str(tensor.dtype) for tensor in self.updated()})
        if (modes, weights, gradients, master) != ([self.precision], [wanted], wanted, [str(torch.float32)]):
            raise LaunchFailed(
                "invalid",
                f"DeepSpeed's mode is {', '.join(modes) or 'fp32'} with weights in {', '.join(weights)}, "
                f"gradients in {gradients} and an update in {', '.join(master)}, "
                f"where {wanted} and an update in {torch.float32} was asked for",
            )
        return super().proof() | {"mode": self.precision, "weights": weights, "gradients": gradients}


def _scaling(spec: WorkerSpec) -> dict[str, int | bool]:
    """The dynamic scale in DeepSpeed's words; without hysteresis, so that every overflow halves it."""
    if not spec.scales_loss:
        return {}
    return {
        "initial_scale_power": int(math.log2(spec.initial_scale)),
        "loss_scale_window": spec.growth_steps,
        "hysteresis": 1,
        "consecutive_hysteresis": False,
        "min_loss_scale": 1,
    }
