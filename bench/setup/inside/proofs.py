"""Prove, in the environment, that what a set-up has made works: `… bench.setup.inside.proofs PROOF …`.

A file that exists may still not load, or may load the libraries of another package.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

CUDA = re.compile(
    r"/lib(cudart|cublas|cudnn|cufft|curand|cusparse|cusolver|cupti|nvrtc|nvJitLink|nvToolsExt|nccl)[^/]*\.so[^/]*$"
)
"""The path of a library of CUDA."""


def prove_torch(cuda: str) -> None:
    """Prove that the installed torch is built with this version of CUDA."""
    import torch

    assert torch.version.cuda == cuda, (
        f"torch {torch.__version__} was installed, which is built with CUDA {torch.version.cuda}, not "
        f"{cuda}: look at `pip config list`"
    )


def prove_libraries(*patterns: str) -> None:
    """Import extensions of torch, without their packages; that resolves every name that they use."""
    import torch  # noqa: F401 - its libraries first

    for pattern in patterns:
        paths = list(Path(sys.prefix).glob(pattern))
        assert len(paths) == 1, f"there is not one {pattern}: {paths}"
        path = paths[0]
        spec = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
        assert spec is not None, path
        importlib.util.module_from_spec(spec)
        print(path)


def prove_cuda11() -> None:
    """Prove that ONNX Runtime and torch load CUDA libraries of the environment alone."""
    # ONNX Runtime would import it, which asks for a GPU.
    sys.modules["deepspeed"] = None  # type: ignore[assignment]
    import onnxruntime  # noqa: F401
    import torch  # noqa: F401
    from onnxruntime.capi import _ld_preload

    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    for library in (_ld_preload.SHARED, *_ld_preload.LIBRARIES):
        assert str(library.resolve()) in mapped, f"{library} is not loaded"
    strangers = [path for path in mapped if CUDA.search(path) and not path.startswith(f"{sys.prefix}/")]
    assert not strangers, f"not of the environment: {strangers}"


PROOFS = {"torch": prove_torch, "libraries": prove_libraries, "cuda11": prove_cuda11}

if __name__ == "__main__":
    PROOFS[sys.argv[1]](*sys.argv[2:])  # type: ignore[operator]
