"""How far a backend's tensors are from what plain PyTorch computes.

Without torch, which a process that trains as on a device does not have.
"""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from bench.launch.messages import BUFFER, TensorDifference

Array = npt.NDArray[np.float64]


def compare(expected: Path, named: Iterable[tuple[str, Array]]) -> Iterator[TensorDifference]:
    """Compare tensors with those of a file, all by what they are and their names.

    A buffer that one side alone has is a constant, such as a mask that only one version of a model keeps.

    Args:
        expected: the file that `bench.worker.gradients.write_expected` wrote.
        named: of the backend.
    """
    with safe_open(expected, framework="numpy") as file:
        noise = json.loads(file.metadata()["noise"])
        missing = dict.fromkeys(file.keys())
        for name, tensor in named:
            if name not in missing:
                if not name.startswith(BUFFER):
                    yield TensorDifference(name=name, error=norm(tensor), norm=0.0, noise=0.0)
                continue
            del missing[name]
            wanted = file.get_tensor(name).astype(np.float64)
            yield TensorDifference(
                name=name, error=distance(tensor, wanted), norm=norm(wanted), noise=noise[name]
            )
        for name in missing:
            if not name.startswith(BUFFER):
                wanted = norm(file.get_tensor(name))
                yield TensorDifference(name=name, error=wanted, norm=wanted, noise=noise[name])


def distance(one: Array, other: Array) -> float:
    """The L2 norm of the difference; infinite if one is not finite, or the shapes differ."""
    if one.shape != other.shape:
        return math.inf
    difference = norm(one - other)
    return math.inf if math.isnan(difference) else difference


def norm(tensor: npt.NDArray[np.generic]) -> float:
    """The L2 norm over all elements, summed in fp64."""
    return float(np.linalg.norm(tensor.astype(np.float64).ravel()))
