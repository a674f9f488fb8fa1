"""torch's Adafactor (Shazeer & Stern 2018, arXiv:1804.04235): second moments are a row and a column.

No first moments; the learning rate is relative to a parameter's root mean square, at step t at most 1/√t.
"""

import torch

SHARED = ("lr", "weight_decay")

build = torch.optim.Adafactor
