"""torchao's AdamW, with moments of 8 bits in blocks; its step is compiled."""

from bench.worker.optimizers._torchao import low_bit_optim

build = low_bit_optim.AdamW8bit
