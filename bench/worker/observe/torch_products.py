"""Kernels of PyTorch's own: a part of every engine that runs on them."""

import re
from collections.abc import Mapping
from typing import Any

import torch

from bench.worker.observe.engine_profile import EngineProfile
from bench.worker.observe.products import Multiply

_TELLING = re.compile(r"Math Kernel|MKL-DNN|oneDNN|OpenMP|BLAS|LAPACK")
"""In the lines of torch's build that say what multiplies matrices."""

_SETTINGS = re.compile(r"\b((?:BLAS|LAPACK)_INFO=\w+|USE_(?:MKL|MKLDNN|OPENMP|CUDA)=\w+)")


class TorchProducts:
    """What an engine that leaves kernels to PyTorch says about them."""

    library = "torch"
    options: Mapping[str, Any]

    def enable_own_profile(self) -> None:
        """Every operator is in torch's profile."""

    def own_profile(self) -> EngineProfile:
        """An empty one."""
        return EngineProfile()

    def prepare_product(self, one: torch.Tensor, other: torch.Tensor, _: torch.device) -> Multiply:
        """Multiplies both into a result that is there, so that nothing is allocated.

        The second one lies transposed, as the weights of a Linear do: in 16 bits a CPU may be several times
        slower otherwise.
        """
        multiply = torch.bmm if one.dim() == 3 else torch.mm
        transposed = other.mT.contiguous().mT
        result = multiply(one, transposed)
        return lambda: multiply(one, transposed, out=result)

    def describe_library(self) -> dict[str, str]:
        """PyTorch's version, what it was built with, and the instructions that its own kernels use."""
        return {
            "version": str(torch.__version__),  # of a class of its own
            "build": describe_build(torch.__config__.show()),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        }


def describe_build(configuration: str) -> str:
    """The parts of `torch.__config__.show()` about matrix products, without the compiler's many flags."""
    lines = [line.strip(" -") for line in configuration.splitlines() if "Build settings" not in line]
    told = [line for line in lines if _TELLING.search(line)]
    return "; ".join([*told, *_SETTINGS.findall(configuration)])
