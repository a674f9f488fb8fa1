"""Which path MKL takes in this process, and the proof that device.blas=full was obeyed; on a CPU only.

With device.blas=full the library of bench/setup/mkl_vendor.c is preloaded. Its presence is not enough:
MKL is asked for the instructions that it really chose.
"""

import ctypes
from pathlib import Path
from typing import Any

import torch

from bench.errors import LaunchFailed
from bench.setup.recipes import MKL_LIBRARY

HOLDS_BACK = "Intel(R) Architecture processors"
"""How MKL calls a CPU that Intel did not make; on its full path it names the instructions in this place."""

TORCH = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
"""The library that multiplies, with MKL in it or linked to it."""


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


class _Version(ctypes.Structure):
    """MKLVersion of mkl_types.h."""

    _fields_ = (
        *((number, ctypes.c_int) for number in ("major", "minor", "update")),
        *((words, ctypes.c_char_p) for words in ("status", "build", "processor", "platform")),
    )


def path_of_mkl() -> str | None:
    """MKL's version, and the instructions whose path it takes, in its words; None without MKL.

    Its verbose mode says the same, after half a second in which it measures the clock.
    """
    if not torch.backends.mkl.is_available():
        return None
    version = _Version()
    # what MKL_Get_Version calls, the name that torch exports; it chooses the path if none is chosen yet
    ctypes.CDLL(str(TORCH)).mkl_serv_get_version(ctypes.byref(version))
    number = f"{version.major}.{version.minor} Update {version.update}"
    return f"oneMKL {number} for {version.platform.decode()} {version.processor.decode()}"
