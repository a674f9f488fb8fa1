"""Prove, in the environment, that what a set-up has made works: `… bench.setup.inside.proofs PROOF …`.

A file that exists may still not load, or may load the libraries of another package.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

LOADER = "/lib64/ld-linux-x86-64.so.2"

CUDA = re.compile(
    r"/lib(cudart|cublas|cudnn|cufft|curand|cusparse|cusolver|cupti|nvrtc|nvJitLink|nvToolsExt|nccl)[^/]*\.so[^/]*$"
)
"""The path of a library of CUDA."""

GIVEN_LATER = {"Provider_GetHost"}  # what ONNX Runtime itself gives to its provider when it loads it


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
    """Prove that ONNX Runtime and torch use CUDA libraries of the environment, and each its own.

    The proof uses no GPU: without a driver that would end the process.
    """
    # ONNX Runtime would import it, while another stage may install it.
    sys.modules["deepspeed"] = None  # type: ignore[assignment]
    import onnxruntime
    import torch
    from onnxruntime.capi import _ld_preload

    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    for library in (_ld_preload.SHARED, *_ld_preload.LIBRARIES):
        assert str(library.resolve()) in mapped, f"{library} is not loaded"
    strangers = [path for path in mapped if CUDA.search(path) and not path.startswith(f"{sys.prefix}/")]
    assert not strangers, f"not of the environment: {strangers}"

    capi = Path(onnxruntime.__file__).parent / "capi"
    deps = Path(torch.__file__).parent / "lib" / "libtorch_global_deps.so"  # what torch makes global
    sources = find_sources(
        capi / "libonnxruntime_providers_cuda.so", [deps, _ld_preload.SHARED, *_ld_preload.LIBRARIES]
    )
    used = {source: names for source, names in sources.items() if CUDA.search(source)}
    for source, names in sorted(used.items()):
        print(f"{len(names):4} functions from {source}")
    others = [source for source in used if Path(source) not in _ld_preload.LIBRARIES]
    assert used, "the provider takes nothing from CUDA"
    assert not others, f"the provider takes functions from {others}"


def find_sources(library: Path, preloaded: list[Path]) -> dict[str, set[str]]:
    """Return, by library, the names that the loader finds there for this one, without running any code.

    AssertionError if a library or a name is missing.
    """
    variables = {
        **os.environ,
        "LD_TRACE_LOADED_OBJECTS": "1",
        "LD_WARN": "yes",
        "LD_BIND_NOW": "yes",
        "LD_DEBUG": "bindings",
        "LD_PRELOAD": ":".join(map(str, preloaded)),
    }
    done = subprocess.run([LOADER, str(library)], env=variables, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    missing = re.findall(r"(\S+) => not found", printed)
    missing += set(re.findall(r"undefined symbol: ([^\s,]+)", printed)) - GIVEN_LATER
    assert not missing, f"{library} misses {missing}"
    bound = rf"binding file {re.escape(str(library))} \[0\] to (\S+) \[0\]: normal symbol `([^']+)'"
    sources: dict[str, set[str]] = {}
    for source, name in re.findall(bound, printed):
        sources.setdefault(source, set()).add(name)
    return sources


PROOFS = {"torch": prove_torch, "libraries": prove_libraries, "cuda11": prove_cuda11}

if __name__ == "__main__":
    PROOFS[sys.argv[1]](*sys.argv[2:])  # type: ignore[operator]
