"""ONNX Runtime's ORTModule: the module is exported, its gradient graph built and run by ONNX Runtime.

Importing onnxruntime.training patches torch.manual_seed and checkpointing, so this module is imported only
in the processes that measure it. Checked against onnxruntime-training 1.19.2, the last release.
"""

from collections import Counter
from typing import Any

import onnxruntime
import torch
from onnxruntime.training.ortmodule import DebugOptions, LogLevel, ORTModule
from onnxruntime.training.ortmodule._fallback_exceptions import ORTModuleFallbackException
from onnxruntime.training.ortmodule._graph_execution_manager import GraphExecutionManager

from bench.errors import LaunchFailed

LOSS_FUNCTION = "_ORTModuleFunctionBackward"
"""The autograd node through which every loss that ONNX Runtime computed goes."""


class Engine:
    """Wraps the module in ORTModule."""

    def wrap(self, model: torch.nn.Module, *, threads: int | None) -> torch.nn.Module:
        """The ORTModule; nothing is exported before its first forward."""
        if threads is not None:
            keep_to_threads(threads)
        self.module = ORTModule(model, DebugOptions(log_level=LogLevel.WARNING))
        return self.module

    def proof(self, loss_function: str) -> dict[str, Any]:
        """Node counts of the optimised training graph, and the options its session was made with."""
        manager = self.module._torch_module._execution_manager(True)
        graph = manager._onnx_models.optimized_model
        if manager._fallback_manager.is_pending() or graph is None or loss_function != LOSS_FUNCTION:
            raise LaunchFailed("fallback", f"PyTorch, not ONNX Runtime, computed the loss ({loss_function})")
        providers = manager._execution_agent._inference_session.get_providers()
        if manager._device.type == "cuda" and providers[0] != "CUDAExecutionProvider":
            raise LaunchFailed("fallback", f"ONNX Runtime ran on {providers[0]}, not on the GPU")
        kinds = Counter(node.op_type for node in graph.graph.node)
        return {
            "loss_function": loss_function,
            "onnxruntime": onnxruntime.__version__,
            "providers": providers,
            "nodes": sum(kinds.values()),
            # These two hand a node back to PyTorch's kernels; few of them are normal (embedding, dropout).
            "aten_nodes": kinds["ATen"],
            "python_nodes": kinds["PythonOp"] + kinds["PythonOpGrad"],
        }

    def status_of(self, error: Exception) -> str | None:
        """ORTModule raises its own exceptions for what it cannot export, differentiate or run."""
        if isinstance(error, ORTModuleFallbackException | torch.onnx.OnnxExporterError):
            return "unsupported"
        # ONNX Runtime's own exceptions (NotImplemented, Fail, InvalidGraph …) have no common base class.
        if type(error).__module__.startswith("onnxruntime."):
            return "unsupported"
        return None


def keep_to_threads(threads: int) -> None:
    """Make every session of this process run on `threads` threads.

    ORTModule builds its session options itself, ignores torch's thread count and takes every core; the
    options are reachable only where it makes them.
    """
    original = GraphExecutionManager._get_session_config

    def limited(self: GraphExecutionManager) -> tuple[Any, Any, Any]:
        options, providers, provider_options = original(self)
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1  # nodes run one after the other, as in eager PyTorch
        return options, providers, provider_options

    GraphExecutionManager._get_session_config = limited
