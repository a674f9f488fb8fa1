"""Programs of the shell that stand first on PATH in place of others."""

from collections.abc import Sequence
from pathlib import Path


def write_program(folder: Path, name: str, script: str) -> None:
    """Write a program that runs a script of the shell."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def write_nvidia_smi(
    folder: Path, *names: str, driver: str = "550.54.15", capabilities: Sequence[str] = ("9.0",)
) -> None:
    """Write a nvidia-smi that lists these GPUs of 80 GiB; drivers before 510 do not know compute_cap."""
    listed = [f"{name}, {driver}, 81559, 81079" for name in names]
    asks_back = "echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2"
    known = int(driver.split(".")[0]) >= 510
    lines = {
        "--query-gpu=name,driver_version,memory.total,memory.free": say(listed),
        "--query-gpu=compute_cap": say(list(capabilities)) if known else asks_back,
    }
    cases = "\n".join(f"{query}) {then} ;;" for query, then in lines.items())
    write_program(folder, "nvidia-smi", f'case "$1" in\n{cases}\n*) exit 2 ;;\nesac')


def say(lines: Sequence[str]) -> str:
    """The command that prints these lines."""
    return "printf '%s\\n' " + " ".join(f"'{line}'" for line in lines)
