"""What a machine must have for an environment, checked before gigabytes are downloaded."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.errors import UserError
from bench.setup.nvidia_smi import list_gpus, version
from bench.setup.recipes import Stack

OLDEST_GLIBC = (2, 28)  # the newest version that a pinned wheel asks for (its tag manylinux_2_28)

COMPILER, VENV, CERTIFICATES = "g++", "python3's venv", "root certificates"

PACKAGES = {
    "git": ("git", "git"),
    "make": ("make", "make"),
    COMPILER: ("g++", "gcc-c++"),
    VENV: ("python3-venv", "python3"),
    CERTIFICATES: ("ca-certificates", "ca-certificates"),
}
"""What a bare machine may lack, with the package that brings it on Debian or Ubuntu, and on Fedora."""


def check_system(stack: Stack, checkout: Path, device: str) -> str:
    """Refuse a system that cannot have this environment; return what else is amiss, or nothing."""
    check_platform(stack)
    lacking = find_lacking()
    if COMPILER in lacking:
        raise describe_lacking(lacking)
    cache = Path(os.environ.get("UV_CACHE_DIR") or cache_folder() / "uv")
    _check_disk(stack.disk_gib[device], (checkout, cache))
    return str(describe_lacking(lacking)) if lacking else ""


def check_platform(stack: Stack) -> None:
    """Refuse a C library or an architecture that a stack has no packages for."""
    name, number = platform.libc_ver()
    if name != "glibc" or version(number) < OLDEST_GLIBC:
        needed = ".".join(map(str, OLDEST_GLIBC))
        raise UserError(
            f"This system's C library is {name or 'another one than glibc'} {number}, and the wheels of "
            f"PyTorch and ONNX Runtime need glibc {needed}",
            "use a newer Linux, such as Debian 11, Ubuntu 20.04 or RHEL 9, or containers/Dockerfile",
        )
    if stack.machine not in ("", platform.machine()):
        raise UserError(
            f"The {stack.name} stack has packages for {stack.machine} alone, and this machine is "
            f"{platform.machine()}",
            "take STACK=modern after `make`",
        )


def find_lacking(*, brings_python: bool = False) -> list[str]:
    """Return what this machine lacks of `PACKAGES`; its Python's venv counts where uv brings another."""
    there = {
        "git": shutil.which("git"),
        "make": shutil.which("make"),
        COMPILER: shutil.which(shlex.split(os.environ.get("CXX") or "g++")[0]),
        VENV: not brings_python or importlib.util.find_spec("ensurepip"),
        CERTIFICATES: _has_certificates(),
    }
    return [part for part, found in there.items() if not found]


def describe_lacking(parts: Sequence[str]) -> UserError:
    """Return what to say of missing parts, with the command that installs their packages."""
    debian, fedora = (" ".join(PACKAGES[part][place] for part in parts) for place in (0, 1))
    return UserError(
        f"Missing here: {', '.join(parts)}",
        f"install as root: apt install {debian} (Debian, Ubuntu), or dnf install {fedora} (Fedora)",
    )


def describe_gpus(stack: Stack) -> str:
    """Return this machine's GPUs and driver, or refuse those that will not do."""
    gpus = list_gpus(may_lack_driver=True)
    if not gpus:
        return f"No NVIDIA driver shows a GPU here. Where one is, the driver must be {stack.driver} or newer."
    if old := find_old_driver(stack, gpus[0].driver):
        raise old
    oldest, newest = stack.capabilities
    for gpu in gpus:
        capability = version(gpu.capability)
        if capability < version(oldest) or (newest and capability[0] > version(newest)[0]):
            raise UserError(
                f"The {stack.name} stack runs on GPUs of compute capability {oldest}"
                + f" to {newest}" * bool(newest)
                + f", and this machine has another ({gpu.name}: {gpu.capability or 'unknown'})",
                "take another machine, or STACK=modern after `make`, or leave the GPUs alone: "
                f"{stack.make} SETUP_ARGS='--device cpu'",
            )
    names = ", ".join(f"{number} × {name}" for name, number in Counter(gpu.name for gpu in gpus).items())
    return f"{names}; driver {gpus[0].driver}."


def find_old_driver(stack: Stack, driver: str) -> UserError | None:
    """Return what to say of a driver that is too old for a stack's CUDA; None if it will do."""
    if version(driver) >= version(stack.driver):
        return None
    return UserError(
        f"The NVIDIA driver is {driver}, and the {stack.name} stack's CUDA {stack.cuda} needs {stack.driver}",
        f"install a newer driver, or leave the GPUs alone: {stack.make} SETUP_ARGS='--device cpu'",
    )


def _check_disk(gib: int, folders: tuple[Path, ...]) -> None:
    """On every disk that takes packages: an environment's files are links to the cache if both are on one."""
    for folder in {_there(folder).stat().st_dev: _there(folder) for folder in folders}.values():
        free = shutil.disk_usage(folder).free / 2**30
        if free < gib:
            raise UserError(
                f"The disk of {folder} has {free:.1f} GiB free, and this set-up needs {gib}",
                "make room, or choose another disk (UV_CACHE_DIR names the folder of downloaded packages)",
            )


def cache_folder() -> Path:
    """Return the folder in which programs keep what they can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 - without a home, too


def _has_certificates() -> bool:
    """Whether there are any by which uv can trust an index; pip brings its own."""
    try:
        import ssl
    except ImportError:  # a Python that can reach no index anyhow
        return True
    paths = ssl.get_default_verify_paths()
    in_folder = paths.capath and any(os.scandir(paths.capath))
    return bool(os.environ.get("PIP_CERT") or paths.cafile or in_folder)


def _there(folder: Path) -> Path:
    return next(each for each in (folder, *folder.absolute().parents) if each.exists())
