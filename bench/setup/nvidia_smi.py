"""GPUs and driver of this machine by nvidia-smi, which is there before anything is installed."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from bench.errors import UserError

SECONDS = 60  # how long it may take; without the driver's persistence mode it wakes every GPU first

FIELDS = "name,driver_version,memory.total,memory.free,compute_cap"

NO_DEVICES, NOT_LOADED, WARNED = 6, 9, 14
"""Exit statuses of nvidia-smi: the driver finds no GPU, is not loaded, or warns of a GPU that works."""


@dataclass(frozen=True)
class ListedGpu:
    """One GPU."""

    name: str  # as the driver calls it
    driver: str  # the driver's version
    total_mib: int  # its memory; 0 where nvidia-smi does not say
    free_mib: int  # what of it is free
    capability: str = ""  # of CUDA, such as `9.0`
    processes: int = 0  # that compute on it; 0 where nobody asked


def list_gpus(*, may_lack_driver: bool = False) -> list[ListedGpu]:
    """Return this machine's GPUs, none where nvidia-smi is missing or finds none; UserError where it fails.

    With `may_lack_driver` no driver is loaded, as on a login node with the image of nodes with GPUs: none.
    """
    try:
        command = ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except OSError:
        return []
    except subprocess.TimeoutExpired:
        raise _failure(f"it gave no answer within {SECONDS} seconds") from None
    if may_lack_driver and answer.returncode == NOT_LOADED:
        return []
    if answer.returncode == NO_DEVICES or answer.stdout.startswith("No devices were found"):
        return []
    printed = (answer.stdout.strip() or answer.stderr.strip()).splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.stdout.splitlines()]
    # It may print warnings among them, and [N/A] for what a GPU does not say.
    gpus = [
        ListedGpu(row[0], row[1], _mib(row[2]), _mib(row[3]), row[4])
        for row in rows
        if len(row) == 5 and version(row[1])
    ]
    if answer.returncode not in (0, WARNED) or not gpus:
        raise _failure(printed[0] if printed else f"exit status {answer.returncode}")
    return gpus


def version(text: str) -> tuple[int, ...]:
    """Return (550, 54, 15) for "550.54.15"; nothing for what is no version."""
    return tuple(int(part) for part in text.split(".")) if re.match(r"[0-9]+(\.[0-9]+)*$", text) else ()


def _failure(trouble: str) -> UserError:
    return UserError(
        f"nvidia-smi is there but fails ({trouble.rstrip('.')})",
        "repair the NVIDIA driver, or leave the GPUs alone with SETUP_ARGS='--device cpu' after `make setup`",
    )


def _mib(cell: str) -> int:
    return int(cell) if cell.isdigit() else 0
