"""DeepSpeed beside GPUs: its own accelerator for CUDA, without Triton, which would look for a driver."""

from types import ModuleType


def _without_triton(module: ModuleType) -> None:
    module.CUDA_Accelerator.is_triton_supported = lambda _: False


PATCHES = {"deepspeed.accelerator.cuda_accelerator": _without_triton}
