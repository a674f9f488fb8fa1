"""What a machine must have for an environment, checked before gigabytes are downloaded."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.errors import UserError
from bench.setup.choice import Choice
from bench.setup.nvidia_smi import ListedGpu, list_gpus, version
from bench.setup.recipes import Stack

OLDEST_GLIBC = (2, 28)  # the newest version that a pinned wheel asks for (its tag manylinux_2_28)
OLDEST_GCC = 9  # the oldest major version that compiles torch's headers (c10/util/C++17.h)


COMPILER, VENV, CERTIFICATES = "g++", "python3's venv", "root certificates"

PACKAGES = {
    "git": ("git", "git"),
    "make": ("make", "make"),
    COMPILER: ("g++", "gcc-c++"),
    VENV: ("python3-venv", "python3"),
    CERTIFICATES: ("ca-certificates", "ca-certificates"),
}
"""What a bare machine may lack, with the package that brings it on Debian or Ubuntu, and on Fedora."""

INSTALLERS = ({"debian", "ubuntu"}, "apt install"), ({"fedora", "rhel"}, "dnf install")
"""The distributions of these packages, as /etc/os-release names them, and the command that installs them."""

OS_RELEASE = Path("/etc/os-release")


def check_system(stack: Stack, checkout: Path, device: str) -> str:
    """Refuse a system that cannot have this environment; return what else is amiss, or nothing.

    UserError names all programs that are missing together, the remedy for them in one line.
    """
    check_platform(stack)
    lacking = find_lacking()
    if COMPILER in lacking:
        raise describe_lacking(lacking)
    _check_compiler()
    _check_file_system(checkout)
    variables = {**os.environ, **spare_folders(checkout / stack.folder)}
    cache = Path(variables.get("UV_CACHE_DIR") or cache_folder() / "uv")
    _check_disk(stack.disk_gib[device], (checkout, cache))
    return str(describe_lacking(lacking)) if lacking else ""


def check_platform(stack: Stack) -> None:
    """Refuse a C library or an architecture that a stack has no packages for."""
    _check_glibc()
    if stack.machine not in ("", platform.machine()):
        raise UserError(
            f"The {stack.name} stack has packages for {stack.machine} alone, and this machine is "
            f"{platform.machine()}",
            "take STACK=modern after `make`",
        )


def find_lacking(*, brings_python: bool = False) -> list[str]:
    """Return what a set-up and a comparison use of `PACKAGES` and this machine lacks.

    The venv of the running Python counts where uv has to bring another one.
    """
    there = {
        "git": shutil.which("git"),
        "make": shutil.which("make"),
        COMPILER: shutil.which(_compiler()[0]),
        VENV: not brings_python or importlib.util.find_spec("ensurepip"),
        CERTIFICATES: _has_certificates(),
    }
    return [part for part, found in there.items() if not found]


def describe_lacking(parts: Sequence[str]) -> UserError:
    """Return what to say of missing parts: their packages in one line, where the distribution is known."""
    words = OS_RELEASE.read_text(encoding="utf-8") if OS_RELEASE.exists() else ""
    names = set(re.findall(r"[\w.-]+", " ".join(re.findall("^ID(?:_LIKE)?=(.*)$", words, re.MULTILINE))))
    # That package is of the distribution's own Python.
    own = os.path.realpath("/usr/bin/python3") == os.path.realpath(sys.executable)
    known = [PACKAGES[part] for part in parts if part in PACKAGES and (part != VENV or own)]
    it = "it" if len(parts) == 1 else "them"
    remedy = f"install {it}"
    for place, (distributions, install) in enumerate(INSTALLERS):
        if distributions & names and known:
            remedy = f"install {it} as root: {install} {' '.join(packages[place] for packages in known)}"
    return UserError(f"Missing here: {', '.join(parts)}", remedy)


def describe_gpus(stack: Stack, choice: Choice) -> str:
    """Return for which GPUs kernels will be compiled, or refuse GPUs or a driver that will not do."""
    gpus = list_gpus(may_lack_driver=True)
    kernels = ""
    if stack.name == "ort":  # which compiles CUDA kernels for the GPUs
        kernels = f"; kernels are compiled for compute capability {choice.architectures}"
    if not gpus:
        needed = f"Where one is, the driver must be {stack.driver} or newer."
        return f"No NVIDIA driver shows a GPU here{kernels}. {needed}"
    if old := find_old_driver(stack, gpus[0].driver):
        raise old
    if not choice.architectures:
        raise _unsuitable(stack, gpus)
    names = ", ".join(f"{number} × {name}" for name, number in Counter(gpu.name for gpu in gpus).items())
    return f"{names}; driver {gpus[0].driver}{kernels}."


def find_old_driver(stack: Stack, driver: str) -> UserError | None:
    """Return what to say of a driver that is too old for a stack's CUDA; None if it will do."""
    if version(driver) >= version(stack.driver):
        return None
    return UserError(
        f"The NVIDIA driver is {driver}, and the {stack.name} stack's CUDA {stack.cuda} needs {stack.driver}",
        f"install a newer driver, or leave the GPUs alone: {stack.make} SETUP_ARGS='--device cpu'",
    )


def _unsuitable(stack: Stack, gpus: list[ListedGpu]) -> UserError:
    oldest, newest = stack.capabilities
    seen = ", ".join(sorted({f"{gpu.name}: {gpu.capability or 'unknown'}" for gpu in gpus}))
    return UserError(
        f"The {stack.name} stack runs on GPUs of compute capability {oldest}"
        + f" to {newest}" * bool(newest)
        + f", and this machine has others ({seen})",
        "take another machine, or STACK=modern after `make`, or leave the GPUs alone: "
        f"{stack.make} SETUP_ARGS='--device cpu'",
    )


def _check_glibc() -> None:
    try:
        name, _, number = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):  # the name is glibc's own
        name = number = ""
    if name != "glibc" or version(number) < OLDEST_GLIBC:
        needed = ".".join(map(str, OLDEST_GLIBC))
        raise UserError(
            f"This system has {f'glibc {number}' if number else 'another C library than glibc'}, "
            f"and the wheels of PyTorch and ONNX Runtime need glibc {needed}",
            "use a newer Linux, such as Debian 11, Ubuntu 20.04 or RHEL 9, or containers/Dockerfile",
        )


def _check_compiler() -> None:
    """A missing one is said by name before any stage runs."""
    compiler = _compiler()
    try:
        answer = subprocess.run(
            [*compiler, "-dumpversion"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    number = answer.stdout.strip()
    if version(number) and version(number)[0] < OLDEST_GCC:
        raise UserError(
            f"{compiler[0]} is {number}, and PyTorch's headers need g++ {OLDEST_GCC} or newer",
            f"install one, and name it if it has another name: CXX=g++-{OLDEST_GCC} before `make`",
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


def spare_folders(env: Path) -> dict[str, str]:
    """Return the variables that have uv keep all in the environment where its own folders are read-only.

    With a folder that it cannot write to, uv ends at once. A folder that the user names is left as it is.
    """
    home = Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"))  # noqa: PTH111 - as above
    return {
        name: str(env / spare)
        for name, folder, spare in (
            ("UV_CACHE_DIR", cache_folder() / "uv", "uv-cache"),
            ("UV_PYTHON_INSTALL_DIR", home / "uv" / "python", "uv-python"),
        )
        if not os.environ.get(name) and not os.access(_there(folder), os.W_OK | os.X_OK)
    }


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "")) or ["g++"]


def _has_certificates() -> bool:
    """Whether there are any by which uv can trust an index; pip brings its own."""
    try:
        import ssl
    except ImportError:  # a Python that can reach no index anyhow
        return True
    paths = ssl.get_default_verify_paths()
    in_folder = paths.capath and any(os.scandir(paths.capath))
    return bool(os.environ.get("PIP_CERT") or paths.cafile or in_folder)


def _check_file_system(checkout: Path) -> None:
    """An environment is made of links and programs, which some file systems do not have."""
    with tempfile.TemporaryDirectory(dir=checkout) as folder:
        program, link = Path(folder, "program"), Path(folder, "link")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        with contextlib.suppress(OSError):
            link.symlink_to(program)
        if not (link.is_symlink() and os.access(program, os.X_OK)):
            raise UserError(
                f"The file system of {checkout} takes no symbolic links or runs no programs",
                "clone into another folder, such as one of your home (on WSL none below /mnt)",
            )


def _there(folder: Path) -> Path:
    return next(each for each in (folder, *folder.absolute().parents) if each.exists())
