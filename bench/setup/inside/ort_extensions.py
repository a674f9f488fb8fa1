"""Compile ONNX Runtime's extensions of torch side by side: `… bench.setup.inside.ort_extensions NAME …`.

ONNX Runtime's own `torch_cpp_extensions.install` takes only a CUDA compiler of torch's version.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# Importing it would take seconds.
PACKAGE = Path(sysconfig.get_path("purelib"), "onnxruntime")
FOLDER = Path(PACKAGE, "training/ortmodule/torch_cpp_extensions")
BUILD_INFO = runpy.run_path(str(Path(PACKAGE, "capi/build_and_package_info.py")))

# torch refuses a nvcc whose major version is not its own. Ours is newer and has the headers of torch's
# version: bench/setup/inside/cuda_compiler.py.
BUILD = """
import runpy, sys
import torch.utils.cpp_extension
torch.utils.cpp_extension._check_cuda_version = lambda *_: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def main(names: list[str]) -> int:
    """Compile these extensions and put them where ONNX Runtime looks for them; return the exit status."""
    # What ONNX Runtime's install tells the extensions' own set-up.
    variables = {
        **os.environ,
        "ONNXRUNTIME_CUDA_VERSION": BUILD_INFO.get("cuda_version", ""),
        "ONNXRUNTIME_ROCM_VERSION": "",
        "ONNXRUNTIME_CUDA_NVCC_EXTRA_ARGS": "-O3,--use_fast_math,--threads,0",
    }
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", BUILD, str(setup), "build"),
                *("--build-temp", f"build/{setup.parent.name}", "--build-lib", "build/lib"),
            ],
            cwd=FOLDER,
            env=variables,
        )
        for setup in FOLDER.glob("*/*/setup.py")
        if setup.parent.name in names
    ]
    failed = [process.wait() != 0 for process in processes]
    for library in FOLDER.glob("build/lib/*.so"):
        shutil.copy(library, FOLDER)
    return int(any(failed) or len(processes) != len(names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
