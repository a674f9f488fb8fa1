"""ONNX Runtime's ORTModule: the module is exported, its gradient graph built and run by ONNX Runtime.

Importing onnxruntime.training patches torch.manual_seed and checkpointing, so this module is imported only
in the processes that measure it. Checked against onnxruntime-training 1.19.2, the last release.
"""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from onnxruntime.training.ortmodule import DebugOptions, LogLevel, ORTModule
from onnxruntime.training.ortmodule._fallback_exceptions import ORTModuleFallbackException
from onnxruntime.training.ortmodule._graph_execution_manager import GraphExecutionManager

from bench.errors import LaunchFailed

LOSS_FUNCTION = "_ORTModuleFunctionBackward"
"""The autograd node through which every loss that ONNX Runtime computed goes."""

RECOMPUTED = "_recompute"
"""The end of the name of a node that ONNX Runtime's memory optimizer added to the backward pass."""

SIXTEEN_BITS = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


class Engine:
    """Wraps the module in ORTModule."""

    def wrap(self, model: torch.nn.Module, *, threads: int | None, checkpointing: bool) -> torch.nn.Module:
        """The ORTModule; nothing is exported before its first forward.

        With `checkpointing` ONNX Runtime recomputes, as ORTMODULE_MEMORY_OPT_LEVEL says: a checkpoint of
        PyTorch's is traced through and keeps every activation, so that the model's own is switched off.
        """
        if threads is not None:
            keep_to_threads(threads)
        self.checkpointing = checkpointing
        if checkpointing and hasattr(model, "gradient_checkpointing_disable"):
            model.gradient_checkpointing_disable()
        self.module = ORTModule(model, DebugOptions(log_level=LogLevel.WARNING))
        if checkpointing:
            # Only the session has the recomputing nodes; it writes what it executes when it is made.
            self.folder = tempfile.TemporaryDirectory()
            self.executed = Path(self.folder.name) / "executed.onnx"
            write_executed_graph(self.module, self.executed)
        return self.module

    def proof(self, loss_function: str) -> dict[str, Any]:
        """Node counts of the optimised training graph, and what makes its session recompute."""
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
            "casts_to_16_bits": sum(map(_casts_to_16_bits, graph.graph.node)),
            "memory_opt_level": int(manager._runtime_options.memory_optimization_level),
            "recompute_nodes": self._recompute_nodes(),
        }

    def _recompute_nodes(self) -> int:
        """How many nodes compute in the backward pass what the forward pass had computed before."""
        if not self.checkpointing:
            return 0
        nodes = onnx.load(str(self.executed), load_external_data=False).graph.node
        self.folder.cleanup()
        found = sum(node.name.endswith(RECOMPUTED) for node in nodes)
        if not found:
            raise LaunchFailed(
                "fallback",
                f"with checkpointing=true ONNX Runtime recomputes none of its graph's {len(nodes)} nodes",
            )
        return found

    def status_of(self, error: Exception) -> str | None:
        """ORTModule raises its own exceptions for what it cannot export, differentiate or run."""
        if isinstance(error, ORTModuleFallbackException | torch.onnx.OnnxExporterError):
            return "unsupported"
        # ONNX Runtime's own exceptions (NotImplemented, Fail, InvalidGraph …) have no common base class.
        if type(error).__module__.startswith("onnxruntime."):
            return "unsupported"
        # A kernel that finds out only while running has no exception of its own: "does not support", or a
        # product without elements, where an expert gets no token. Want of memory was asked for before.
        words = str(error)
        late = "does not support" in words or "pass execution" in words
        return "unsupported" if isinstance(error, RuntimeError) and "onnxruntime" in words and late else None


def _casts_to_16_bits(node: onnx.NodeProto) -> bool:
    return node.op_type == "Cast" and any(
        attribute.name == "to" and attribute.i in SIXTEEN_BITS for attribute in node.attribute
    )


def write_executed_graph(module: ORTModule, path: Path) -> None:
    """Make the module's training session write the graph that it executes to `path` when it is made.

    Without weights: ORTModule gives them to the session as inputs.
    """
    manager = module._torch_module._execution_manager(True)
    original = manager._get_session_config

    def writing() -> tuple[Any, Any, Any]:
        options, providers, provider_options = original()
        options.optimized_model_filepath = str(path)
        return options, providers, provider_options

    manager._get_session_config = writing


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
