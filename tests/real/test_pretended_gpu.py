"""Pretended GPUs take what the real libraries take: arguments that those would refuse are refused."""

import inspect
from typing import Any

import pytest


def parameters(function: Any) -> list[tuple[str, bool]]:
    """Names, and whether each may be left out."""
    found = inspect.signature(function).parameters.values()
    return [
        (each.name, each.default is not each.empty) for each in found if each.name not in ("args", "kwargs")
    ]


def test_every_function_of_torch_cuda_has_torch_s_own_arguments() -> None:
    import torch

    from tests.support.pretended_gpu.cuda import IN_TORCH_CUDA

    for name, pretended in IN_TORCH_CUDA.items():
        real = getattr(torch.cuda, name)
        assert inspect.isclass(pretended) == (inspect.isclass(real) and name != "stream"), name
        if not inspect.isclass(pretended):
            assert parameters(pretended) == parameters(real), name
            continue
        for method in (each for each in vars(pretended) if not each.startswith("_")):
            assert parameters(getattr(pretended, method)) == parameters(getattr(real, method)), (name, method)


def test_what_stands_in_for_tensors_distributed_and_the_profiler_has_the_arguments_it_reads() -> None:
    import torch
    import torch.distributed
    import torch.profiler

    taken = {
        torch.distributed.init_process_group: {"backend", "timeout", "device_id"},
        torch.distributed.barrier: {"device_ids"},
        torch.nn.parallel.DistributedDataParallel.__init__: {"module", "device_ids"},
        torch.autocast.__init__: {"device_type", "dtype", "cache_enabled"},
        torch.profiler.profile.__init__: {"activities"},
    }
    for function, names in taken.items():
        assert names <= {name for name, _ in parameters(function)}, function
    events: Any = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with events:
        torch.ones(1)
    from tests.support.pretended_gpu.profiler import Event

    one = events.profiler.kineto_results.events()[0]
    assert all(callable(getattr(one, name)) for name in vars(Event) if not name.startswith("_"))


@pytest.mark.ort
def test_the_extensions_have_the_arguments_that_onnx_runtime_s_own_code_gives_them() -> None:
    """Their sources lie in the package, to be compiled where there are GPUs."""
    import re
    from pathlib import Path

    import onnxruntime

    from tests.support.pretended_gpu.ort import ADDRESSES, TorchTensorVector, multi_tensor_adam

    sources = Path(onnxruntime.__file__).parent / "training/ortmodule/torch_cpp_extensions/cuda"
    adam = (sources / "fused_ops/multi_tensor_adam.cu").read_text(encoding="utf-8")
    declared = re.search(r"void multi_tensor_adam_cuda\((.*?)\)", adam, re.DOTALL)
    assert declared is not None
    assert declared[1].count(",") == len(parameters(multi_tensor_adam)) - 1
    exported = (sources / "fused_ops/fused_ops_frontend.cpp").read_text(encoding="utf-8")
    assert TorchTensorVector.__name__ in exported
    allocator = (sources / "torch_gpu_allocator/torch_gpu_allocator.cc").read_text(encoding="utf-8")
    for name in ADDRESSES:
        assert f"gpu_caching_allocator_{name}_address" in allocator
