"""How the environment of each stack is made: its stages, as data."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.setup.choice import Choice
from bench.setup.stage import Stage


@dataclass(frozen=True)
class Stack:
    """A set of versions that belong together, and how they are installed.

    Args:
        name: by which it is asked for.
        folder: the environment's name in the checkout.
        pythons: the supported versions, the preferred one first.
        stages: makes the stages out of the checkout, the environment and what was chosen.
    """

    name: str
    folder: str
    pythons: tuple[str, ...]
    stages: Callable[[Path, Path, Choice], tuple[Stage, ...]]


SITE = "lib/python*/site-packages"

MKL_LIBRARY = "lib/libmkl_full_path.so"
"""What the stage `blas` builds, below the environment; bench/setup/mkl_vendor.c says what it is for."""

MKL_MACHINE = "x86_64"
"""The only architecture that MKL exists for, as `platform.machine` names it."""


def ort_stages(checkout: Path, env: Path, choice: Choice) -> tuple[Stage, ...]:
    """Return the stages of the stack that ONNX Runtime Training 1.19.2 can run on."""
    gpu = choice.device == "cuda"
    requirements = checkout / "requirements" / ("ort-gpu.txt" if gpu else "ort-cpu.txt")
    extensions = f"{SITE}/onnxruntime/training/ortmodule/torch_cpp_extensions"
    return (
        venv_stage(env, choice),
        packages_stage(checkout, env, requirements, torch_first=gpu),
        Stage(
            name="ortmodule",
            commands=((python(env), "-m", "onnxruntime.training.ortmodule.torch_cpp_extensions.install"),),
            discards=(f"{extensions}/build", f"{extensions}/*.so"),
            proof=(f"{extensions}/aten_op_executor*.so", f"{extensions}/torch_interop_utils*.so"),
            tools=("g++",),
            does="g++ compiles ONNX Runtime's extensions of torch, 2 to 3 minutes on 2 cores",
            remedy="it needs CUDA 11.8 with nvcc and cuDNN 8; without them take the packages for a"
            " CPU: make setup SETUP_ARGS='--device cpu'"
            if gpu
            else "it needs a working g++ with C++17",
        ),
        deepspeed_stage(checkout, env, requirements),
        *blas_stages(checkout, env),
    )


def modern_stages(checkout: Path, env: Path, choice: Choice) -> tuple[Stage, ...]:
    """Return the stages of today's stack."""
    requirements = checkout / "requirements" / "modern.txt"
    return (
        venv_stage(env, choice),
        packages_stage(checkout, env, requirements, torch_first=True),
        deepspeed_stage(checkout, env, requirements),
        *blas_stages(checkout, env),
    )


def venv_stage(env: Path, choice: Choice) -> Stage:
    """Return the stage that makes an empty environment."""
    return Stage(
        name="venv",
        commands=((choice.python, "-m", "venv", "--without-pip", str(env)),),
        discards=("bin", "include", "lib", "lib64", "share", "pyvenv.cfg"),
        proof=("bin/python",),
        does=f"an empty environment with Python {choice.version}, 1 s",
    )


def packages_stage(checkout: Path, env: Path, requirements: Path, *, torch_first: bool) -> Stage:
    """Return the stage that installs a file of requirements.

    With `torch_first` the file leaves out the CUDA libraries, which each build of torch pins itself: those of
    another CUDA come from another index (PIP_EXTRA_INDEX_URL), and a CPU build that lies at hand
    (PIP_FIND_LINKS) needs none.
    """
    relative = str(requirements.relative_to(checkout))
    lines = requirements.read_text().splitlines() if torch_first else []
    torch = [line.split()[0] for line in lines if line.startswith("torch==")]
    uv_itself = checkout / "requirements" / "uv.txt"
    return Stage(
        name="packages",
        commands=(
            (python(env), "-m", "ensurepip", "--default-pip"),
            (python(env), "-m", "pip", "install", "--progress-bar=off", "-r", str(uv_itself)),
            *((*install(env), one) for one in torch),
            # The file holds every version, so there is nothing to resolve.
            (*install(env), "--no-deps", "-r", str(requirements)),
            (*uv(env), "check"),
            # Versions may be right and a library missing: soundfile's wheel for any platform has none.
            (python(env), "-c", "import datasets, soundfile"),
        ),
        # What must be built is built with the setuptools of the same file.
        variables=(("UV_CONSTRAINT", relative), ("UV_BUILD_CONSTRAINT", relative)),
        discards=(f"{SITE}/*",),
        proof=(f"{SITE}/torch/__pycache__/*.pyc",),
        inputs=(requirements, uv_itself),
        does=f"uv installs {relative}, about a minute",
        remedy="it needs the network and some 8 GB of free disk",
    )


def deepspeed_stage(checkout: Path, env: Path, requirements: Path) -> Stage:
    """Return the stage that compiles what DeepSpeed would compile at its first start with gloo or CPUAdam.

    Left to itself it does so in a folder with a lock file, which a killed process leaves behind for ever.
    """
    options = ("--no-deps", "--no-build-isolation", "--no-cache", "--reinstall")
    return Stage(
        name="deepspeed",
        commands=((*install(env), *options, "deepspeed"),),
        variables=(
            ("DS_ACCELERATOR", "cpu"),
            ("DS_BUILD_SHM_COMM", "1"),
            ("DS_BUILD_CPU_ADAM", "1"),
            ("DS_ENABLE_NINJA", "1"),  # a source on each core
            ("UV_CONSTRAINT", str(requirements.relative_to(checkout))),
        ),
        proof=(
            f"{SITE}/deepspeed/ops/comm/deepspeed_shm_comm_op*.so",
            f"{SITE}/deepspeed/ops/adam/cpu_adam_op*.so",
        ),
        tools=("g++",),
        does="g++ compiles DeepSpeed's communication of CPU ranks and its Adam for CPUs, about 2 minutes",
        remedy="it needs a working g++ with OpenMP",
    )


def blas_stages(checkout: Path, env: Path, machine: str = platform.machine()) -> tuple[Stage, ...]:
    """Return the stage that compiles the library of device.blas=full; none where there is no MKL.

    The last one of a stack, so that adding it made no complete environment do its other stages again.
    """
    if machine != MKL_MACHINE:
        return ()
    source = checkout / "bench" / "setup" / "mkl_vendor.c"
    # CXX is the user's compiler if there is one. The two functions need no other library, not even libc.
    compile_library = '"$CXX" -x c -O2 -shared -fPIC -nostdlib -o "$0" "$1"'
    return (
        Stage(
            name="blas",
            commands=(("sh", "-c", compile_library, str(env / MKL_LIBRARY), str(source)),),
            discards=(MKL_LIBRARY,),
            proof=(MKL_LIBRARY,),
            inputs=(source,),
            tools=("g++",),
            does="g++ compiles the two functions of device.blas=full, 1 s",
            remedy="it needs a working g++",
        ),
    )


def python(env: Path) -> str:
    """Return an environment's interpreter."""
    return str(env / "bin" / "python")


def uv(env: Path) -> tuple[str, ...]:
    """Return the command that is about an environment's packages."""
    return (python(env), "-m", "bench.setup.uv", "pip")


def install(env: Path) -> tuple[str, ...]:
    """Return the command that installs packages into an environment, with their bytecode.

    Without it every rank would compile some thousand modules in each launch, for ever where
    PYTHONDONTWRITEBYTECODE is set.
    """
    return (*uv(env), "install", "--compile-bytecode")


STACKS = {
    stack.name: stack
    for stack in (
        Stack(name="ort", folder=".venv", pythons=("3.11", "3.10"), stages=ort_stages),
        Stack(name="modern", folder=".venv-modern", pythons=("3.11", "3.12", "3.13"), stages=modern_stages),
    )
}
"""The supported ones, the default first."""
