"""ONNX Runtime's ORTModule: the module is exported, its gradient graph built and run by ONNX Runtime.

Importing onnxruntime.training patches torch.manual_seed and checkpointing, so this module is imported only
in the processes that measure it. Checked against onnxruntime-training 1.19.2, the last release.
"""

import json
import os
import re
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from onnxruntime.training.ortmodule import DebugOptions, LogLevel, ORTModule
from onnxruntime.training.ortmodule._fallback_exceptions import ORTModuleFallbackException
from onnxruntime.training.ortmodule._graph_transition_manager import GraphTransitionManager
from torch.jit import TracerWarning

from bench.config.engine_options import ENGINE_OPTIONS
from bench.errors import LaunchFailed
from bench.launch.messages import FROZEN
from bench.worker.engines import TorchEngine
from bench.worker.engines._ort_sessions import CheckedSession, set_session_options

LOSS_FUNCTION = "_ORTModuleFunctionBackward"
"""The autograd node of every loss that ONNX Runtime computed."""

EXPORT_MODEL = GraphTransitionManager._export_model

NO_DROPOUT = "no_dropout"  # the ratio
RANDOM = re.compile("Bernoulli|Multinomial|Random.*")  # operators that draw and are no dropout

RECOMPUTED = "_recompute"
"""The end of the name of a node that ONNX Runtime's memory optimizer added to the backward pass."""

OF_THE_MODEL = r"running aten node|out of data bounds"
"""What ONNX Runtime says where an operator of PyTorch failed, or an id has no embedding: eager fails, too."""

OF_THE_GPU = r"(cuda|cublas|cudnn|nccl) (failure|error)"  # what ONNX Runtime says of a GPU that failed

SHAPE_INFERENCE = ("onnx", "onnxruntime", "sympy")
"""Packages whose Python computes before anything is trained."""

SIXTEEN_BITS = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


class Engine(TorchEngine):
    """Wraps the module in ORTModule."""

    profiled = False
    library = "onnxruntime"

    def wrap(self, model: torch.nn.Module, *, threads: int | None, checkpointing: bool) -> torch.nn.Module:
        """The ORTModule, not yet exported; ONNX Runtime recomputes by ORTMODULE_MEMORY_OPT_LEVEL.

        PyTorch's own checkpointing would be traced through and keep every activation.
        """
        onnxruntime.InferenceSession = CheckedSession
        patch_missing_loss_hooks()
        self.frozen = watch_exports()
        self.threads, self.checkpointing = threads, checkpointing
        if checkpointing and hasattr(model, "gradient_checkpointing_disable"):
            model.gradient_checkpointing_disable()
        wanted: dict[str, Any] = {}
        if self.profiled:
            self.profiles = tempfile.TemporaryDirectory()
            wanted = {"enable_profiling": True, "profile_file_prefix": f"{self.profiles.name}/session"}
        if checkpointing:
            # Only the session has the recomputing nodes; it writes what it executes when it is made.
            self.folder = tempfile.TemporaryDirectory()
            self.executed = Path(self.folder.name) / "executed.onnx"
            wanted["optimized_model_filepath"] = str(self.executed)
        self.module = ORTModule(model, DebugOptions(log_level=LogLevel.WARNING))
        set_session_options(self.module, training=True, threads=threads, **wanted)
        set_session_options(self.module, training=False, threads=threads)
        return self.module

    def enable_own_profile(self) -> None:
        """Let ONNX Runtime write down every kernel of its training session; called before `wrap`."""
        self.profiled = True

    def own_profile(self) -> tuple[Sequence[dict[str, Any]], int]:
        """End the session's own profile, and return its events."""
        manager = self.module._torch_module._execution_manager(True)
        session = manager._execution_agent._inference_session
        beginning = session.get_profiling_start_time_ns()
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        self.profiles.cleanup()
        return events, beginning

    def proof(self, loss_function: str) -> dict[str, Any]:
        """The optimised training graph's size and casts, and what makes its session recompute."""
        manager = self.module._torch_module._execution_manager(True)
        graph = manager._onnx_models.optimized_model
        if manager._fallback_manager.is_pending() or graph is None or loss_function != LOSS_FUNCTION:
            raise LaunchFailed("fallback", f"PyTorch, not ONNX Runtime, computed the loss ({loss_function})")
        return {
            "loss_function": loss_function,
            "onnxruntime": onnxruntime.__version__,
            "providers": manager._execution_agent._inference_session.get_providers(),
            "nodes": len(graph.graph.node),
            "casts_to_16_bits": sum(
                any(attribute.name == "to" and attribute.i in SIXTEEN_BITS for attribute in node.attribute)
                for node in graph.graph.node
                if node.op_type == "Cast"
            ),
            FROZEN: list(dict.fromkeys(self.frozen)),
            "options": _read_back_options(manager),
            "recompute_nodes": self._recompute_nodes(),
        }

    def switch_off_dropout(self, model: torch.nn.Module) -> None:  # noqa: ARG002 - its graph has it
        """Make the session anew of the graph that was timed, not of a new export, without its dropouts."""
        if self.checkpointing:
            raise LaunchFailed("unsupported", "a graph that recomputes is not made anew without dropout")
        manager = self.module._torch_module._execution_manager(True)
        exported = manager._graph_transition_manager._post_export_processed_model_info
        graph = exported._post_export_processed_model.graph
        graph.initializer.append(onnx.helper.make_tensor(NO_DROPOUT, onnx.TensorProto.FLOAT, [], [0.0]))
        for node in graph.node:
            if node.op_type == "Dropout":
                node.input[1] = NO_DROPOUT
            elif RANDOM.fullmatch(node.op_type):
                raise LaunchFailed("unsupported", f"{node.op_type} is not switched off in an exported graph")
        manager._initialize_graph_builder(exported)
        manager._build_graph(manager._get_graph_transformer_config())
        manager._create_execution_agent()

    def _recompute_nodes(self) -> int:
        """How many nodes compute in the backward pass what the forward pass had computed before."""
        if not self.checkpointing:
            return 0
        nodes = onnx.load(str(self.executed), load_external_data=False).graph.node
        self.folder.cleanup()
        count = sum(node.name.endswith(RECOMPUTED) for node in nodes)
        if not count:
            raise LaunchFailed(
                "fallback",
                f"with checkpointing=true ONNX Runtime recomputes none of its graph's {len(nodes)} nodes",
            )
        return count

    def status_of(self, error: Exception) -> str | None:
        """ORTModule raises its own exceptions for what it cannot export, differentiate or run."""
        if isinstance(error, ORTModuleFallbackException | torch.onnx.OnnxExporterError):
            # A model's own IndexError, such as for an id without an embedding, is raised in any export.
            cause = error.__context__
            of_model = isinstance(cause, IndexError) and not _raised_in(cause).startswith("torch.onnx")
            return None if of_model else "unsupported"
        # ONNX Runtime's own exceptions (NotImplemented, Fail, InvalidGraph …) have no common base class.
        if type(error).__module__.startswith("onnxruntime."):
            return None if re.search(OF_THE_GPU, str(error).lower()) else "unsupported"
        # What its C++ raises while it builds the gradient graph, or while a kernel runs, is a RuntimeError
        # that names its source file. Out of memory was handled before this.
        if isinstance(error, RuntimeError) and "onnxruntime" in (words := str(error).lower()):
            return None if re.search(f"{OF_THE_GPU}|{OF_THE_MODEL}", words) else "unsupported"
        # Its Python infers shapes with what onnx and sympy raise.
        return "unsupported" if _raised_in(error).split(".")[0] in SHAPE_INFERENCE else None


def _raised_in(error: BaseException) -> str:
    """The module whose code raised an error; empty if it was not raised."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")) if frames else ""


def _read_back_options(manager: Any) -> dict[str, int]:
    """The options that ONNX Runtime reports; `fallback` if one is not as configured."""
    options = {
        name: int(getattr(manager._runtime_options, option.read_back))
        for name, option in ENGINE_OPTIONS["ortmodule"].items()
        if option.read_back
    }
    for name, value in options.items():
        wanted = os.environ.get(ENGINE_OPTIONS["ortmodule"][name].variable)
        if wanted is not None and int(wanted) != value:
            raise LaunchFailed("fallback", f"ONNX Runtime has {name}={value} where {wanted} was asked for")
    return options


def patch_missing_loss_hooks() -> None:
    """Let ORTModule 1.19.2 export with the sparsity of embeddings off: its list of hooks is None then."""
    original = GraphTransitionManager._add_check_label_sparsity_hook

    def with_a_list(*arguments: Any) -> list[Any]:
        return original(*arguments) or []

    GraphTransitionManager._add_check_label_sparsity_hook = staticmethod(with_a_list)


def watch_exports() -> list[str]:
    """Let ORTModule's export leave the model's buffers as they were; a list to which it adds what it freezes.

    Its forward pass in PyTorch would have a batch norm count the first batch twice. It also silences the
    tracer, which warns of every tensor's value that becomes a constant, such as how often a loop is run.
    """
    frozen: list[str] = []

    def leaving_buffers(*, flattened_module: torch.nn.Module, **others: Any) -> Any:
        before = [(buffer, buffer.detach().clone()) for buffer in flattened_module.buffers()]
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", TracerWarning)
                TracerWarning.ignore_lib_warnings()
                return EXPORT_MODEL(flattened_module=flattened_module, **others)
        finally:
            for one in caught:
                if issubclass(one.category, TracerWarning):
                    what = str(one.message).partition(" might ")[0]
                    frozen.append(f"{Path(one.filename).name}, line {one.lineno}: {what}")
            with torch.no_grad():
                for buffer, value in before:
                    buffer.copy_(value)

    GraphTransitionManager._export_model = staticmethod(leaving_buffers)
    return frozen
