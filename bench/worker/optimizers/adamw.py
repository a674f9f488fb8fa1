"""torch's AdamW as it is by default: over lists of tensors on a GPU, tensor by tensor on a CPU."""

import torch

build = torch.optim.AdamW
