"""16-bit precision as a part of the model: autocast inside its forward, under all engines.

ORTModule then exports the casts with everything else, and DDP and DeepSpeed see a module whose weights,
gradients and optimizer states are float32 ("mixed precision" of Micikevicius et al. 2017, arXiv:1710.03740).
A sharding that casts by itself (`Sharding.autocasts`) gets the model without.
"""

from collections.abc import Iterable
from typing import Any

import torch

from bench.errors import LaunchFailed
from bench.worker.workload.layers import replace_forward

SIXTEEN_BITS = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""The type to cast to, by `precision.name`; other precisions cast nothing."""

AMPERE = (8, 0)
"""The compute capability from which on there is hardware for bf16 and TF32 (CUDA C++ Programming Guide, table
of technical specifications). Before it TF32 runs as fp32 and bf16 is emulated, both without a word."""

NORMS = (torch.nn.LayerNorm, torch.nn.GroupNorm)
"""Layers that CUDA's autocast runs in float32 and a CPU's leaves in the precision of their input."""


def autocast(model: torch.nn.Module, precision: str, device_type: str) -> None:
    """Make a model with float32 weights, in place and before any engine wraps it, run in `precision`."""
    dtype = SIXTEEN_BITS.get(precision)
    if dtype is None:
        return
    inner = model.forward.__func__

    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        # Not cached while tracing: a weight's cast belongs into the graph at every use.
        with torch.autocast(device_type, dtype=dtype, cache_enabled=not torch.jit.is_tracing()):
            return inner(self, *args, **kwargs)

    replace_forward(model, forward)
    if device_type == "cpu":
        # A layer norm of 16-bit inputs and 32-bit weights has no form in ONNX. Softmax, which CUDA's autocast
        # runs in float32, too, stays in 16 bits on a CPU: the same under all backends.
        for module in model.modules():
            if isinstance(module, NORMS):
                module.register_forward_pre_hook(_in_float32)


def _in_float32(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return (inputs[0].float(), *inputs[1:])


def check_capability(precision: str, device: str, capability: tuple[int, int]) -> None:
    """Refuse as `unsupported` what a GPU of this name and capability would do in another precision."""
    if precision in ("bf16", "tf32") and capability < AMPERE:
        version = ".".join(map(str, capability))
        raise LaunchFailed(
            "unsupported",
            f"{device} has no hardware for precision={precision}, which came with compute capability 8.0 "
            f"(this is {version}); choose precision=fp16 or fp32",
        )


def proof(precision: str, parameters: Iterable[torch.Tensor], *, autocasts: bool) -> dict[str, Any]:
    """What autocast casts to, if it is the one that casts, and the types of what is updated, all float32."""
    types = sorted({str(parameter.dtype) for parameter in parameters})
    if set(types) - {"torch.float32"}:  # a rank may have nothing to update, where there are few tensors
        raise LaunchFailed("invalid", f"the optimizer updates {', '.join(types)}, not float32")
    dtype = SIXTEEN_BITS.get(precision) if autocasts else None
    return {"autocast": None if dtype is None else str(dtype), "updated": types}
