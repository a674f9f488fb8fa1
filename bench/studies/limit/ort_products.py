"""Matrix products by ONNX Runtime; imported only where it trains."""

from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime
import torch
from onnxruntime.capi import _pybind_state

from bench.worker.engines._ort_sessions import limit_threads

ELEMENT_TYPES = {
    torch.float32: onnx.TensorProto.FLOAT,
    torch.float16: onnx.TensorProto.FLOAT16,
    torch.bfloat16: onnx.TensorProto.BFLOAT16,
}


def prepare(left: torch.Tensor, right: torch.Tensor, threads: int | None) -> Callable[[], torch.Tensor]:
    """A session of one node, on as many threads as training has, whose tensors stay where they are."""
    options = onnxruntime.SessionOptions()
    limit_threads(options, threads)
    provider = ("CUDAExecutionProvider", {"device_id": left.device.index or 0})
    session = onnxruntime.InferenceSession(
        product_model(ELEMENT_TYPES[left.dtype]).SerializeToString(),
        options,
        providers=[provider if left.is_cuda else "CPUExecutionProvider"],
    )
    result = left.new_empty(*left.shape[:-1], right.shape[-1])
    binding = session.io_binding()
    for name, tensor in (("left", left), ("right", right)):
        binding.bind_ortvalue_input(name, share_tensor(tensor))
    binding.bind_ortvalue_output("result", share_tensor(result))
    running = onnxruntime.RunOptions()
    # As with PyTorch, the timing code waits for the device, not every single call.
    running.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def multiply(kept: torch.Tensor = result) -> torch.Tensor:
        session.run_with_iobinding(binding, running)
        return kept  # a reference to the memory that the session writes into

    return multiply


def product_model(element_type: int) -> onnx.ModelProto:
    """A model of one node, which multiplies two matrices or two batches of them."""
    left, right, result = (
        onnx.helper.make_tensor_value_info(name, element_type, None) for name in ("left", "right", "result")
    )
    node = onnx.helper.make_node("MatMul", ["left", "right"], ["result"])
    graph = onnx.helper.make_graph([node], "product", [left, right], [result])
    versions = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=versions, ir_version=8)


def share_tensor(tensor: torch.Tensor) -> Any:
    """Hand a tensor's memory to ONNX Runtime as its own kind of tensor."""
    return onnxruntime.OrtValue(_pybind_state.OrtValue.from_dlpack(torch.to_dlpack(tensor), False))
