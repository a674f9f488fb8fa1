"""The module of torchao's optimizers: a prototype until 0.9, the last version for torch 2.6."""

from importlib import import_module

try:
    low_bit_optim = import_module("torchao.optim")
except ModuleNotFoundError:
    low_bit_optim = import_module("torchao.prototype.low_bit_optim")
