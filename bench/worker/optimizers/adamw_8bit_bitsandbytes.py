"""bitsandbytes' AdamW, with moments of 8 bits in blocks (Dettmers et al. 2021, arXiv:2110.02861).

Moments of tensors with less than 4,096 elements stay in fp32.
"""

from bitsandbytes.optim import AdamW8bit

build = AdamW8bit
