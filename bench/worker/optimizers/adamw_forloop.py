"""torch's AdamW tensor by tensor, on every device."""

from functools import partial

import torch

# Without fused=False torch would still run the for-loop; a later torch may not.
build = partial(torch.optim.AdamW, foreach=False, fused=False)
