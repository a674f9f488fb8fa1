"""Where torchao has its optimizers: in a prototype until 0.9, which is the last for torch 2.6."""

from importlib import import_module

try:
    low_bit_optim = import_module("torchao.optim")
except ModuleNotFoundError:
    low_bit_optim = import_module("torchao.prototype.low_bit_optim")
