"""A benchmarking harness for training backends: PyTorch, ONNX Runtime, ONNX Runtime + DeepSpeed ZeRO."""
