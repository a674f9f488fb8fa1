"""ONNX Runtime's FusedAdam, which has CUDA kernels only."""

from functools import partial

from onnxruntime.training.optim.fused_adam import AdamWMode, FusedAdam

# Its defaults follow transformers' old AdamW (eps 1e-6, no decay); ADAMW_TORCH is torch's formula.
build = partial(FusedAdam, adam_w_mode=AdamWMode.ADAMW_TORCH)
