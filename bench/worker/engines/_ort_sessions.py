"""ONNX Runtime sessions that run where configured, and on the configured number of threads."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime
from onnxruntime.capi import _pybind_state
from onnxruntime.training.ortmodule import ORTModule

from bench.errors import LaunchFailed

CUDA_LIBRARY = "libonnxruntime_providers_cuda.so"

DEVICE_AND_ALLOCATOR = ("device_id", "gpu_external_alloc", "gpu_external_free", "gpu_external_empty_cache")
"""Options of a session that say on which GPU it runs, and that torch's allocator gives it memory."""


class CheckedSession(onnxruntime.InferenceSession):
    """A session on the requested device, or else `fallback`: ONNX Runtime would go on with the CPU."""

    def __init__(
        self,
        model: Any,
        sess_options: Any = None,
        providers: Any = None,
        provider_options: Any = None,
        **others: Any,
    ) -> None:
        super().__init__(model, sess_options, providers, provider_options, **others)
        if not providers:
            return
        wanted, options = providers[0], (provider_options or [{}])[0]
        if not isinstance(wanted, str):
            wanted, options = wanted
        actual = self.get_providers()[0]
        if actual != wanted:
            raise LaunchFailed(
                "fallback",
                f"ONNX Runtime made a session for {actual}, not for {wanted}: {find_missing_library()}",
            )
        in_force = self.get_provider_options()[actual]
        for key in [key for key in options if key in DEVICE_AND_ALLOCATOR]:
            if in_force.get(key) != str(options[key]):
                raise LaunchFailed(
                    "fallback", f"ONNX Runtime's session has {key}={in_force.get(key)}, not {options[key]}"
                )


def find_missing_library() -> str:
    """Return why ONNX Runtime's library for CUDA cannot be loaded, as the dynamic loader says it."""
    library = Path(_pybind_state.__file__).with_name(CUDA_LIBRARY)
    if not library.exists():
        return f"the installed package has no {library.name}; install onnxruntime-training"
    # In a separate process, since loading a broken library may end it.
    program = "import ctypes, sys, onnxruntime; ctypes.CDLL(sys.argv[1])"
    command = [sys.executable, "-c", program, str(library)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    words = ended.stderr.strip().splitlines()
    return words[-1] if words else f"{library.name} can be loaded, but finds no GPU"


def limit_threads(options: Any, threads: int | None) -> None:
    """Make a session with these options run on `threads` threads, or else on every core."""
    if threads is not None:
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1  # nodes run one after the other, as in eager PyTorch


def set_session_options(module: ORTModule, *, training: bool, threads: int | None, **wanted: Any) -> None:
    """Set options and threads of the module's session for training, or of that for evaluation.

    ORTModule makes them itself, at the first step, and takes every core. A session's graph has no weights.
    """
    manager = module._torch_module._execution_manager(training)
    original = manager._get_session_config

    def changed() -> tuple[Any, Any, Any]:
        options, providers, provider_options = original()
        limit_threads(options, threads)
        for name, value in wanted.items():
            setattr(options, name, value)
        return options, providers, provider_options

    manager._get_session_config = changed
