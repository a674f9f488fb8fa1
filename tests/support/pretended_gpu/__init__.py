"""GPUs that are not there: every process of a test believes in them, and computes on the CPU.

With `variables` in its environment a process finds, through Python's start-up hook, an NVML with so many
equal GPUs, and torch, torch.distributed, ONNX Runtime and DeepSpeed as they are on a machine with GPUs. The
product's branches for CUDA run, their arguments are checked, and the arithmetic is real. The product knows
nothing of this.
"""

import os
from pathlib import Path

from tests.support.fake_programs import write_program

START = Path(__file__).with_name("start")
"""Holds the start-up hook, and the distribution that a machine with GPUs has."""

COUNT, FOLDER, MEMORY, FAULTS = (
    f"PRETENDED_GPU_{name}" for name in ("COUNT", "FOLDER", "MEMORY_MIB", "FAULTS")
)

DEFERRED_SECONDS = 0.05
"""Of a backward pass, under the fault `deferred`: the host goes on, and the GPU is at work so much longer."""


def variables(folder: Path, count: int, *, memory_mib: int = 8192, faults: str = "") -> dict[str, str]:
    """The environment of a process on a machine with pretended GPUs.

    Args:
        folder: in which the processes of one test note what they have on each GPU.
        count: of GPUs.
        memory_mib: of each.
        faults: names, with a comma between: `no-provider`, `no-allocator`, `wrong-uuid`, `deferred`,
            `no-events`, `throttled`, `falling-clock`, `waiting`.
    """
    write_program(folder / "cuda" / "bin", "nvcc", "echo 'Cuda compilation tools, release 12.4, V12.4.131'")
    others = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return others | {
        "PYTHONPATH": ":".join(filter(None, (str(START), os.environ.get("PYTHONPATH")))),
        "CUDA_HOME": str(folder / "cuda"),
        COUNT: str(count),
        FOLDER: str(folder),
        MEMORY: str(memory_mib),
        FAULTS: faults,
    }


def has_fault(name: str) -> bool:
    """Whether this process's GPUs have it."""
    return name in os.environ.get(FAULTS, "").split(",")
