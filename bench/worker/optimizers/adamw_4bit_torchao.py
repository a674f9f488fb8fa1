"""torchao's AdamW, with moments of 4 bits in blocks; its step is compiled."""

from bench.worker.optimizers._torchao import low_bit_optim

build = low_bit_optim.AdamW4bit
