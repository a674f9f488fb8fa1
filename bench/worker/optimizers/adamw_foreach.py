"""torch's AdamW over lists of tensors."""

from functools import partial

import torch

build = partial(torch.optim.AdamW, foreach=True)
