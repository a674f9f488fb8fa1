"""GPUs and driver of this machine by nvidia-smi, which is there before anything is installed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from bench.setup.failure import SetupFailed

SECONDS = 60
"""How long it may take; without the driver's persistence mode it wakes every GPU first."""

NO_DEVICES = 6
"""Its exit status where the driver finds no GPU."""


@dataclass(frozen=True)
class ListedGpu:
    """One GPU: its name, its driver's version, and its memory in MiB."""

    name: str
    driver: str
    total_mib: int
    free_mib: int


def list_gpus() -> list[ListedGpu]:
    """Return this machine's GPUs; none where nvidia-smi is missing or finds none.

    Raises:
        SetupFailed: nvidia-smi is there and fails, so that a GPU may be there, too.
    """
    rows = _query("name,driver_version,memory.total,memory.free")
    return [ListedGpu(name, driver, _mib(total), _mib(free)) for name, driver, total, free in rows]


def list_capabilities() -> list[str]:
    """Return the compute capabilities of this machine's GPUs, each once, such as `9.0`; the oldest first.

    None where the driver does not know the question, as those before 510, which are too old for every stack.
    """
    try:
        return sorted({row[0] for row in _query("compute_cap")}, key=version)
    except SetupFailed:
        return []


def version(text: str) -> tuple[int, ...]:
    """Return (550, 54, 15) for "550.54.15"."""
    return tuple(int(part) for part in text.split("."))


def _query(fields: str) -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except OSError:
        return []
    except subprocess.TimeoutExpired:
        raise _failure(f"it gave no answer within {SECONDS} seconds") from None
    if answer.returncode == NO_DEVICES or answer.stdout.startswith("No devices were found"):
        return []
    if answer.returncode:
        said = (answer.stdout.strip() or answer.stderr.strip()).splitlines()
        raise _failure(said[0] if said else f"exit status {answer.returncode}")
    return [[cell.strip() for cell in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]


def _failure(what: str) -> SetupFailed:
    return SetupFailed(
        f"nvidia-smi is there but fails ({what.rstrip('.')})",
        "repair the NVIDIA driver, or choose the packages for a CPU: make setup SETUP_ARGS='--device cpu'",
    )


def _mib(cell: str) -> int:
    return int(cell) if cell.isdigit() else 0
