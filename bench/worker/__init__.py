"""One rank of a worker group, and the choices that it is made of: engines, optimizers, shardings, loops."""

import sys
from importlib import import_module
from types import ModuleType

from bench.errors import LaunchFailed


def load_choice(folder: str, name: str) -> ModuleType:
    """Import `bench.worker.<folder>.<name>`; `unsupported` if a package that it needs is missing."""
    try:
        return import_module(f"bench.worker.{folder}.{name}")
    except ModuleNotFoundError as error:
        package, setting = (error.name or "").partition(".")[0], folder.removesuffix("s")
        raise LaunchFailed(
            "unsupported",
            f"{setting}={name} needs the package {package}, which this environment does not have; "
            f"install it there, or choose another {setting}",
        ) from error


def leave_out_inference_kernels() -> None:
    """Let DeepSpeed be imported without its Triton kernels, which only its inference uses.

    On an A100 and later Triton would compile a library for them: that needs a C compiler and a writable home.
    Triton itself is not hidden: DeepSpeed imports modules of torch.compile, which keep what they find.
    """
    for module, name in (("mlp", "TritonMLP"), ("attention", "TritonSelfAttention")):
        empty = ModuleType(f"deepspeed.ops.transformer.inference.triton.{module}")
        setattr(empty, name, None)
        sys.modules[empty.__name__] = empty


leave_out_inference_kernels()
