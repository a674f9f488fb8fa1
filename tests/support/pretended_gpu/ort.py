"""ONNX Runtime beside GPUs: sessions for CUDA are made as they would be there, and run on the CPU."""

import sys
from types import ModuleType
from typing import Any

import torch

from tests.support.pretended_gpu import has_fault
from tests.support.pretended_gpu.cuda import GPU

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
ADAMW_TORCH = 2
ADDRESSES = {"raw_alloc": 4711, "raw_delete": 4712, "empty_cache": 4713}
"""Of the functions of torch's allocator."""


def _change_sessions(module: Any) -> None:
    class Session(module.InferenceSession):
        def __init__(
            self, model: Any, options: Any = None, providers: Any = None, settings: Any = None, **others: Any
        ) -> None:
            asked = [(each, {}) if isinstance(each, str) else each for each in providers or [CPU]]
            if settings:
                asked = [(name, setting) for (name, _), setting in zip(asked, settings, strict=True)]
            self._on_gpu: dict[str, Any] = {}
            if asked[0][0] == CUDA:
                self._on_gpu = {name: str(value) for name, value in asked[0][1].items()}
                if has_fault("no-allocator"):
                    self._on_gpu["gpu_external_alloc"] = "0"
                assert self._on_gpu["device_id"] == str(GPU.index), "a session on another rank's GPU"
            super().__init__(model, options, [CPU], **others)

        def get_providers(self) -> list[str]:
            return [CUDA, CPU] if self._on_gpu and not has_fault("no-provider") else [CPU]

        def get_provider_options(self) -> dict[str, dict[str, str]]:
            there = {CUDA: self._on_gpu} if self.get_providers()[0] == CUDA else {}
            return there | {CPU: {}}

    module.InferenceSession = Session


def _leave_devices_alone(module: Any) -> None:
    """A module whose weights are on a GPU says so, and its inputs are there."""
    module._get_device_from_module = lambda _: torch.device("cuda", GPU.index)
    module._check_same_device = lambda *_: None


def _put_outputs_on_cpu(module: Any) -> None:
    original = module.get_ort_device_type
    module.get_ort_device_type = lambda *_: original("cpu", 0)


class TorchTensorVector(list[torch.Tensor]):
    """Tensors, as the extension takes them."""


def multi_tensor_adam(
    chunk_size: int,
    overflow: torch.Tensor,
    lists: list[TorchTensorVector],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    mode: int,
    bias_correction: int,
    weight_decay: float,
) -> None:
    """Update in torch's operations, as the kernel does in the mode with the update of torch's AdamW."""
    assert mode == ADAMW_TORCH
    assert bias_correction == 1
    for gradient, weight, mean, square in zip(*lists, strict=True):
        weight.mul_(1 - lr * weight_decay)
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = (square.sqrt() / (1 - beta2**step) ** 0.5).add_(eps)
        weight.addcdiv_(mean, root, value=-lr / (1 - beta1**step))


def _add_extensions(module: Any) -> None:
    """The two that are compiled for GPUs alone."""
    extensions: dict[str, dict[str, Any]] = {
        "fused_ops": {"multi_tensor_adam": multi_tensor_adam, "TorchTensorVector": TorchTensorVector},
        "torch_gpu_allocator": {
            f"gpu_caching_allocator_{name}_address": lambda value=address: value
            for name, address in ADDRESSES.items()
        },
    }
    for name, contents in extensions.items():
        extension = ModuleType(f"{module.__name__}.{name}")
        vars(extension).update(contents)
        sys.modules[extension.__name__] = extension
        setattr(module, name, extension)


PATCHES = {
    "onnxruntime": _change_sessions,
    "onnxruntime.training.ortmodule._utils": _leave_devices_alone,
    "onnxruntime.training.ortmodule.torch_cpp_extensions": _add_extensions,
    "onnxruntime.training.ortmodule._training_manager": _put_outputs_on_cpu,
}
