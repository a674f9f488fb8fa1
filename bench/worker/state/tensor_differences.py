"""How far a backend's tensors are from what plain PyTorch computes.

Without torch, which a process that trains as on a device does not have.
"""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from bench.launch.messages import BUFFER, MOVEMENT

Array = npt.NDArray[np.float64]

NOT_ALWAYS_THERE = (BUFFER, MOVEMENT)
"""Tensors that one side alone may have: constants, such as a mask that only one version of a model keeps, and
weights without a gradient, which some optimizers let decay."""


def file_of(folder: str, kind: str) -> Path:
    """Where `bench.worker.state.gradients.write_expected` writes the tensors of a kind."""
    return Path(folder) / f"{kind}.safetensors"


def compare(folder: str, kind: str, named: Iterable[tuple[str, Array]]) -> Iterator[tuple[str, float]]:
    """How far a backend's tensors are from the expected ones of the same names, by their kind and name."""
    with safe_open(file_of(folder, kind), framework="numpy") as file:
        missing = dict.fromkeys(file.keys())
        for name, tensor in named:
            if name in missing:
                del missing[name]
                yield f"{kind} {name}", distance(tensor, file.get_tensor(name).astype(np.float64))
            elif kind not in NOT_ALWAYS_THERE:
                yield f"{kind} {name}", norm(tensor)
        for name in missing:
            if kind != BUFFER:
                yield f"{kind} {name}", norm(file.get_tensor(name))


def distance(tensor: Array, expected: Array) -> float:
    """The L2 norm of the difference; infinite if one is not finite, or the shapes differ."""
    if tensor.shape != expected.shape:
        return math.inf
    difference = norm(tensor - expected)
    return math.inf if math.isnan(difference) else difference


def norm(tensor: npt.NDArray[np.generic]) -> float:
    """The L2 norm over all elements, summed in fp64."""
    return float(np.linalg.norm(tensor.astype(np.float64).ravel()))
