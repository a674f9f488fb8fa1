"""Loads the CUDA 11.8 of ONNX Runtime's kernels out of the environment.

In an environment for GPUs this file stands in place of `onnxruntime/capi/_ld_preload.py`, which ONNX Runtime
imports before its native library. The loader then finds the libraries by their names, whoever started the
process. They are not loaded globally, so that they serve no function to torch, which has its own CUDA.
"""

import ctypes
import sys
from pathlib import Path

from onnxruntime.capi import build_and_package_info, onnxruntime_collect_build_info

# torch's own, whose name is that of CUDA 11's, too: there is one for both.
SHARED = Path(__file__).parents[2] / "nvidia/curand/lib/libcurand.so.10"

LIBRARIES = tuple(
    Path(sys.prefix) / "cuda11/nvidia" / library
    for library in (
        "cuda_runtime/lib/libcudart.so.11.0",
        "cublas/lib/libcublasLt.so.11",  # before cuBLAS, which needs it
        "cublas/lib/libcublas.so.11",
        "cufft/lib/libcufft.so.10",
        "cuda_nvrtc/lib/libnvrtc.so.11.2",
        "cudnn/lib/libcudnn.so.8",
        # It loads these by their names, and would take them from LD_LIBRARY_PATH.
        *(
            f"cudnn/lib/libcudnn_{part}_{use}.so.8"
            for use in ("infer", "train")
            for part in ("ops", "cnn", "adv")
        ),
    )
)

for library in (SHARED, *LIBRARIES):
    ctypes.CDLL(str(library))

# ONNX Runtime's import would load any libcudart.so that the system has, to compare its version with that of
# its build, which this release does not know, and warn. It has the right one now.
build_and_package_info.cudart_version = 11080
onnxruntime_collect_build_info.find_cudart_versions = lambda **_: [11080]
