"""Where torchao has its optimizers: in a prototype until 0.9, which is the last for torch 2.6."""

from importlib import import_module
from types import ModuleType


def low_bit_optim() -> ModuleType:
    """The module with AdamW8bit and AdamW4bit.

    Raises:
        ModuleNotFoundError: torchao is not there.
    """
    try:
        return import_module("torchao.optim")
    except ModuleNotFoundError:
        return import_module("torchao.prototype.low_bit_optim")
