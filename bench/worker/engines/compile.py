"""torch.compile: the module's Python is traced into graphs, which Inductor turns into kernels."""

from typing import Any

import torch
import torch._dynamo.utils
import torch._inductor.config

from bench.errors import LaunchFailed
from bench.worker.engines import TorchEngine

LOSS_FUNCTION = "CompiledFunctionBackward"
"""The autograd node of every loss that a compiled graph computed."""


class Engine(TorchEngine):
    """Compiles the module; whatever wraps it for several ranks stays outside, as with ORTModule."""

    def wrap(self, model: torch.nn.Module, *, threads: int | None, checkpointing: bool) -> torch.nn.Module:
        """Return the module, which compiles itself at its first forward; its parameters keep their names."""
        model.compile(dynamic=False, mode=self.options.get("mode"))  # batches have one shape
        return super().wrap(model, threads=threads, checkpointing=checkpointing)

    def enable_own_profile(self) -> None:
        """Inductor's kernels for CPUs stand in torch's profile only if they are compiled with a name."""
        torch._inductor.config.cpp.enable_kernel_profile = True

    def proof(self, loss_function: str) -> dict[str, Any]:
        """The number of graphs, and the compiler's time."""
        counters = torch._dynamo.utils.counters
        graphs = int(counters["stats"]["unique_graphs"])
        if not graphs or loss_function != LOSS_FUNCTION:
            raise LaunchFailed(
                "fallback", f"PyTorch ran eagerly: {graphs} compiled graphs, the loss is from {loss_function}"
            )
        times = torch._dynamo.utils.compilation_time_metrics
        return {
            "loss_function": loss_function,
            "mode": self.options.get("mode", "default"),
            "graphs": graphs,
            # Dynamo's outermost clock, which holds all others
            "compile_seconds": float(
                sum(times.get("_compile.compile_inner", times.get("entire_frame_compile", [])))
            ),
            # Off unless set elsewhere; a `mode` sets them only while it compiles, which is not seen here.
            "cuda_graphs": bool(torch._inductor.config.triton.cudagraphs)
            or ("mode" in self.options and next(self.model.parameters()).is_cuda),
        }

    def status_of(self, error: Exception) -> str | None:
        """What Dynamo or Inductor raises about a model is `unsupported`."""
        module = type(error).__module__
        return "unsupported" if module.startswith(("torch._dynamo", "torch._inductor")) else None
