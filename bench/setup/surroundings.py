"""What a machine must have for an environment, looked at before gigabytes are downloaded."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

from bench.setup import nvidia_smi
from bench.setup.choice import OLDEST_CAPABILITY, Choice
from bench.setup.failure import SetupFailed
from bench.setup.recipes import Stack

OLDEST_GLIBC = (2, 28)
"""The newest one that a pinned wheel asks for (its tag manylinux_2_28)."""


def check_surroundings(stack: Stack, checkout: Path, choice: Choice) -> str:
    """Return what is worth knowing before a set-up, in lines, or refuse what cannot end well.

    Raises:
        SetupFailed: with the remedy.
    """
    _check_glibc()
    _check_disk(stack.disk_gib[choice.device], (checkout, _packages_cache()))
    return _check_driver(stack, choice) if choice.device == "cuda" else ""


def _check_glibc() -> None:
    try:
        name, _, number = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):  # the name is glibc's own
        name = number = ""
    if name != "glibc" or nvidia_smi.version(number) < OLDEST_GLIBC:
        needed = ".".join(map(str, OLDEST_GLIBC))
        raise SetupFailed(
            f"This system has {f'glibc {number}' if number else 'another C library than glibc'}, "
            f"and the wheels of PyTorch and ONNX Runtime need glibc {needed}",
            "use a newer Linux, such as Debian 10, Ubuntu 20.04 or RHEL 8, or containers/Dockerfile",
        )


def _check_disk(gib: int, folders: tuple[Path, ...]) -> None:
    """On every disk that takes packages: an environment's files are links to the cache if both are on one."""
    for folder in {_there(folder).stat().st_dev: _there(folder) for folder in folders}.values():
        free = shutil.disk_usage(folder).free / 2**30
        if free < gib:
            raise SetupFailed(
                f"The disk of {folder} has {free:.1f} GiB free, and this set-up needs {gib}",
                "make room, or choose another disk (UV_CACHE_DIR names the folder of downloaded packages)",
            )


def _packages_cache() -> Path:
    """Return the folder in which uv keeps what it has downloaded."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - without a home, too
    return Path(os.environ.get("UV_CACHE_DIR") or f"{cache}/uv")


def _there(folder: Path) -> Path:
    return next(each for each in (folder, *folder.absolute().parents) if each.exists())


def _check_driver(stack: Stack, choice: Choice) -> str:
    gpus = nvidia_smi.list_gpus()
    if not gpus:
        return (
            "No NVIDIA driver shows a GPU here, so kernels are compiled for compute capability "
            f"{choice.architectures}; where they run, a driver from {stack.driver} on is needed.\n"
        )
    if old := find_old_driver(stack, gpus[0].driver):
        raise old
    if not choice.architectures:
        raise SetupFailed(
            f"The GPUs of this machine ({', '.join(sorted({gpu.name for gpu in gpus}))}) have a compute "
            f"capability below {OLDEST_CAPABILITY}, for which the CUDA compiler has no code",
            "take a machine with newer ones, or choose the packages for a CPU: make setup "
            "SETUP_ARGS='--device cpu'",
        )
    names = ", ".join(f"{number} × {name}" for name, number in Counter(gpu.name for gpu in gpus).items())
    return f"{names}; driver {gpus[0].driver}; kernels for compute capability {choice.architectures}.\n"


def find_old_driver(stack: Stack, driver: str) -> SetupFailed | None:
    """Return what to say of a driver that is too old for a stack's CUDA; None if it will do."""
    if nvidia_smi.version(driver) >= nvidia_smi.version(stack.driver):
        return None
    return SetupFailed(
        f"The NVIDIA driver is {driver}, and CUDA {stack.cuda} needs {stack.driver}",
        "install a newer driver, or choose the packages for a CPU: make setup SETUP_ARGS='--device cpu'",
    )
