"""Which path MKL takes in this process, and the proof that device.blas=full was obeyed; on a CPU only.

With device.blas=full the library of bench/setup/mkl_vendor.c is preloaded. Its presence is not enough:
MKL is asked for the instructions that it really chose.
"""

import ctypes
import functools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.errors import LaunchFailed
from bench.setup.recipes import MKL_LIBRARY

HOLDS_BACK = "Intel(R) Architecture processors"
"""How MKL calls a CPU that Intel did not make; on its full path it names the instructions in this place."""

WIDTH = 64  # width of the matrices that are multiplied to make MKL speak: next to no work


def proof(blas: str) -> dict[str, Any]:
    """What multiplies this process's matrices, and its path; `fallback` if device.blas asks for another."""
    library = Path(MKL_LIBRARY).name
    path = path_of_mkl()
    preloaded = library in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    if blas == "full":
        check_full(path, preloaded=preloaded)
    return {"setting": blas, "path": path, "preloaded": preloaded}


def check_full(path: str | None, *, preloaded: bool) -> None:
    """Raise `LaunchFailed` unless it is the full path; `preloaded`: our library is in this process."""
    if path is None:
        problem = "this torch does not multiply with MKL"
    elif not preloaded:
        problem = f"the loader has not preloaded {Path(MKL_LIBRARY).name}"
    elif HOLDS_BACK in path:
        problem = f"MKL still takes the path of “{HOLDS_BACK}”"
    else:
        return
    raise LaunchFailed("fallback", f"device.blas=full has no effect: {problem}")


@functools.cache
def path_of_mkl() -> str | None:
    """The line in which MKL names its version and its instructions, which it says once; None without MKL."""
    if not torch.backends.mkl.is_available():
        return None
    square = torch.ones(WIDTH, WIDTH)

    def multiply() -> None:
        with torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON):
            square @ square

    lines = (line.removeprefix("MKL_VERBOSE ") for line in printed_by(multiply).splitlines())
    return next((line for line in lines if "architecture" in line), None)


def printed_by(call: Callable[[], None]) -> str:
    """What a call prints, libraries written in C included, which know nothing of sys.stdout."""
    libc = ctypes.CDLL(None)
    sys.stdout.flush()
    libc.fflush(None)
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            call()
        finally:
            libc.fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")
