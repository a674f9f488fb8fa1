"""Programs of the shell that stand first on PATH in place of others."""

from pathlib import Path


def write_program(folder: Path, name: str, script: str) -> None:
    """Write a program that runs a script of the shell."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def write_nvidia_smi(folder: Path, *gpus: str, driver: str = "550.54.15", also: str = "") -> None:
    """Write a nvidia-smi that lists GPUs of 80 GiB, each given as `NVIDIA H100 9.0`.

    Args:
        folder: for the program.
        gpus: name and compute capability.
        driver: its version.
        also: what it does besides.
    """
    named = [gpu.rpartition(" ") for gpu in gpus]
    listed = say([f"{name}, {driver}, 81559, 81079, {number}" for name, _, number in named])
    write_program(folder, "nvidia-smi", f"{listed}\n{also}")


def say(lines: list[str]) -> str:
    """The command that prints these lines."""
    return "printf '%s\\n' " + " ".join(f"'{line}'" for line in lines)
