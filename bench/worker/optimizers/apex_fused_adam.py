"""apex's FusedAdam, which has CUDA kernels only, with decoupled weight decay."""

from functools import partial

from apex.optimizers import FusedAdam

build = partial(FusedAdam, adam_w_mode=True)
