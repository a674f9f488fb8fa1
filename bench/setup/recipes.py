"""How the environment of each stack is made: its stages, as data."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.setup.choice import DEVICES, Choice
from bench.setup.stage import SetupStage


@dataclass(frozen=True)
class Stack:
    """A set of versions that belong together, and how they are installed."""

    name: str  # by which it is asked for
    folder: str  # the environment's name in the checkout
    pythons: dict[str, tuple[str, ...]]  # the supported versions by device, the preferred one first
    cuda: str  # the version of CUDA that its torch is built with
    # the oldest NVIDIA driver that runs that CUDA (NVIDIA's table of minor version compatibility)
    driver: str
    # of GPUs: the oldest that CUDA's compiler knows, the newest that torch has kernels for; empty: it has
    # them for all
    capabilities: tuple[str, str]
    machine: str  # the only one with packages, as `platform.machine` names it; empty: there are more
    disk_gib: dict[str, int]  # what a set-up needs, by device
    # makes the stages out of the checkout, the environment and what was chosen
    stages: Callable[[Path, Path, Choice], tuple[SetupStage, ...]]

    @property
    def make(self) -> str:
        """The command that makes the environment."""
        return "make setup" if self.name == "ort" else f"make setup STACK={self.name}"


SITE = "lib/python*/site-packages"

SELDOM_IMPORTED = (
    "/site-packages/((pip|mypyc?|selenium|trio|networkx|fontTools|pygments/lexers|sympy/physics|.*/tests?|"
    r"torch/testing/_internal)/|transformers/models/(?!auto)\w+/(?!__init__))"
)
"""The paths of half of all packages' code, of which a comparison imports little but its model's modules."""

NO_CUDA_IN_DEEPSPEED = ("DS_ACCELERATOR", "cpu")
"""The variable with which importing DeepSpeed, as ONNX Runtime Training does, asks for no CUDA compiler where
a GPU is."""

NETWORK = (
    "it needs the network, and an index with every wheel that the lines above name: call it again, or look "
    "at `pip config list`"
)
"""The remedy of a stage that installs packages."""

MKL_LIBRARY = "lib/libmkl_full_path.so"
"""What the stage `blas` builds, below the environment; bench/setup/mkl_vendor.c says what it is for."""

MKL_MACHINE = "x86_64"  # the only architecture that MKL exists for, as `platform.machine` names it

INSIDE = Path("bench", "setup", "inside")
UNITED = INSIDE / "united"

CUDA11 = "cuda11"
"""The folder below an environment that holds ONNX Runtime's CUDA 11.8, apart from torch's CUDA 12.4: their
wheels have folders of the same names."""

TORCHS_CUDA = "12.4"  # what the pinned torch is built with
CUDA_HOME = "nvcc/nvidia/cu13"  # the folder below an environment that holds its CUDA compiler
ARCHITECTURES = "7.5;8.0;9.0"  # of kernels, from Turing to Hopper; one for 8.0 runs on 8.6 and 8.9, too


def ort_stages(checkout: Path, env: Path, choice: Choice) -> tuple[SetupStage, ...]:
    """Return the stages of the stack that ONNX Runtime Training 1.19.2 can run on."""
    gpu = choice.device == "cuda"
    requirements = checkout / "requirements" / ("ort-gpu.txt" if gpu else "ort-cpu.txt")
    extensions = f"{SITE}/onnxruntime/training/ortmodule/torch_cpp_extensions"
    names = ("aten_op_executor", "torch_interop_utils", *(("torch_gpu_allocator", "fused_ops") * gpu))
    libraries = tuple(f"{extensions}/{name}*.so" for name in names)
    on_gpus = (
        ("CUDA_HOME", str(env / CUDA_HOME)),
        ("TORCH_CUDA_ARCH_LIST", ARCHITECTURES),
        # Drivers of CUDA 12 cannot undo the compression of 13; a g++ that CUDA 12.4 does not know is tried.
        ("NVCC_APPEND_FLAGS", "--compress-mode=none --allow-unsupported-compiler"),
    )
    return (
        venv_stage(env, choice),
        packages_stage(checkout, env, requirements, choice, torch_first=gpu, cuda=TORCHS_CUDA * gpu),
        *((cuda11_stage(checkout, env), compiler_stage(checkout, env)) if gpu else ()),
        SetupStage(
            name="ortmodule",
            commands=(
                (python(env), "-m", "bench.setup.inside.ort_extensions", *names),
                prove(env, "libraries", *libraries),
            ),
            variables=(united(checkout), *(on_gpus if gpu else ())),
            discards=(f"{extensions}/build", f"{extensions}/*.so"),
            proof=libraries,
            inputs=(checkout / INSIDE / "ort_extensions.py", checkout / UNITED / "sitecustomize.py"),
            does="compiles ONNX Runtime's extensions of torch, about a minute",
            remedy="it needs a working g++ with C++17",
        ),
        deepspeed_stage(checkout, env, requirements, choice),
        *blas_stages(checkout, env),
    )


def modern_stages(checkout: Path, env: Path, choice: Choice) -> tuple[SetupStage, ...]:
    """Return the stages of today's stack."""
    requirements = checkout / "requirements" / "modern.txt"
    return (
        venv_stage(env, choice),
        packages_stage(checkout, env, requirements, choice, torch_first=True),
        deepspeed_stage(checkout, env, requirements, choice),
        *blas_stages(checkout, env),
    )


def venv_stage(env: Path, choice: Choice) -> SetupStage:
    """Return the stage that makes an empty environment."""
    return SetupStage(
        name="venv",
        commands=((choice.python, "-m", "venv", "--without-pip", str(env)),),
        discards=("bin", "include", "lib", "lib64", "share", "pyvenv.cfg"),
        proof=("bin/python",),
        does=f"an empty environment with Python {choice.version}, 1 s",
    )


def packages_stage(
    checkout: Path, env: Path, requirements: Path, choice: Choice, *, torch_first: bool, cuda: str = ""
) -> SetupStage:
    """Return the stage that installs a file of requirements.

    With `torch_first` the file leaves out the CUDA libraries, which each build of torch pins itself; a CPU
    build that lies at hand (PIP_FIND_LINKS) needs none. With `cuda`, torch must be built with that version.
    """
    relative = str(requirements.relative_to(checkout))
    lines = requirements.read_text(encoding="utf-8").splitlines() if torch_first else []
    torch = [line.split()[0] for line in lines if line.startswith("torch==")]
    uv_itself = checkout / "requirements" / "uv.txt"
    return SetupStage(
        name="packages",
        commands=(
            (python(env), "-m", "ensurepip", "--default-pip"),
            (python(env), "-m", "pip", "install", "--progress-bar=off", "-r", str(uv_itself)),
            # Its scripts then run wherever the checkout is moved to, but for those that came before uv. Of an
            # environment's own link to Python 3.10 uv would make a link to itself.
            (*uv(env), "venv", "--relocatable", "--allow-existing", "--python", choice.python, str(env)),
            ("sh", "-c", 'rm -f "$0"/bin/pip* "$0"/bin/activate.csh', str(env)),
            *((*uv(env), "pip", "install", requirement) for requirement in torch),
            # The file holds every version, so there is nothing to resolve.
            (*uv(env), "pip", "install", "--no-deps", "-r", str(requirements)),
            (*uv(env), "pip", "check"),
            compile_bytecode(env, "."),
            *([prove(env, "torch", cuda)] if cuda else []),
            # Versions may be right and a library missing: soundfile's wheel for any platform has none.
            (python(env), "-c", "import datasets, soundfile"),
        ),
        # What must be built is built with the setuptools of the same file.
        variables=(("UV_CONSTRAINT", relative), ("UV_BUILD_CONSTRAINT", relative)),
        discards=(f"{SITE}/*",),
        proof=(f"{SITE}/torch/__pycache__/*.pyc",),
        inputs=(requirements, uv_itself),
        does=f"uv installs {relative}, about a minute",
        remedy=NETWORK,
    )


def cuda11_stage(checkout: Path, env: Path) -> SetupStage:
    """Return the stage that brings the CUDA 11.8 that ONNX Runtime's kernels are linked with."""
    requirements = checkout / "requirements" / "cuda11.txt"
    source = checkout / INSIDE / "ort_cuda_libraries.py"
    # ONNX Runtime imports it before its native library. Removed first: it may be a link into uv's cache.
    preload = (
        'cd "$0"/lib/python*/site-packages/onnxruntime/capi && rm -f _ld_preload.py && cp "$1" _ld_preload.py'
    )
    return SetupStage(
        name="cuda11",
        commands=(
            (*uv(env), "pip", "install", "--no-deps", "--target", str(env / CUDA11), "-r", str(requirements)),
            ("sh", "-c", preload, str(env), str(source)),
            prove(env, "cuda11"),
        ),
        variables=(NO_CUDA_IN_DEEPSPEED,),
        discards=(CUDA11,),
        proof=(f"{CUDA11}/nvidia/cudnn/lib/libcudnn.so.8",),
        inputs=(requirements, source),
        does="uv installs CUDA 11.8 for ONNX Runtime, apart from torch's CUDA 12.4, about a minute",
        remedy=f"{NETWORK}; LD_LIBRARY_PATH or LD_PRELOAD may have brought in another library",
    )


def compiler_stage(checkout: Path, env: Path) -> SetupStage:
    """Return the stage that assembles a CUDA compiler out of wheels, which fits the environment's torch."""
    requirements = checkout / "requirements" / "nvcc.txt"
    source = checkout / INSIDE / "cuda_compiler.py"
    return SetupStage(
        name="compiler",
        commands=(
            # Copies, since it is changed: links would lead into uv's cache.
            (
                *(*uv(env), "pip", "install", "--link-mode=copy", "--no-deps"),
                *("--target", str(env / "nvcc"), "-r", str(requirements)),
            ),
            (python(env), "-m", "bench.setup.inside.cuda_compiler", str(env / "nvcc")),
        ),
        discards=("nvcc",),
        proof=(f"{CUDA_HOME}/bin/nvcc", f"{CUDA_HOME}/include/cuda_runtime.h"),
        inputs=(requirements, source),
        does="uv installs a CUDA compiler, seconds",
        remedy=NETWORK,
    )


def deepspeed_stage(checkout: Path, env: Path, requirements: Path, choice: Choice) -> SetupStage:
    """Return the stage that compiles what DeepSpeed would compile at its first start with gloo or CPUAdam.

    Left to itself it does so in a folder with a lock file, which a killed process leaves behind for ever.
    """
    options = ("--no-deps", "--no-build-isolation", "--no-cache", "--reinstall", "deepspeed")
    names = ("deepspeed_shm_comm",) + ("cpu_adam",) * choice.cpu_adam
    libraries = tuple(f"{SITE}/deepspeed/ops/*/{name}_op*.so" for name in names)
    return SetupStage(
        name="deepspeed",
        commands=(
            (*uv(env), "pip", "install", *options),
            compile_bytecode(env, "deepspeed"),
            prove(env, "libraries", *libraries),
        ),
        variables=(
            NO_CUDA_IN_DEEPSPEED,
            ("TORCH_WARM_POOL", "0"),  # else torch starts processes that wait for work
            ("DS_BUILD_SHM_COMM", "1"),
            ("DS_BUILD_CPU_ADAM", str(int(choice.cpu_adam))),
            united(checkout),
            ("DIST_EXTRA_CONFIG", str(checkout / UNITED / "distutils.cfg")),  # an extension on each core
            # Nothing here is for CUDA. Without it DeepSpeed asks any nvcc that is on PATH, and fails with it.
            ("TORCH_CUDA_ARCH_LIST", "8.0"),
            ("UV_CONSTRAINT", str(requirements.relative_to(checkout))),
        ),
        proof=libraries,
        inputs=(checkout / UNITED / "sitecustomize.py", checkout / UNITED / "distutils.cfg"),
        does="g++ compiles DeepSpeed's communication of CPU ranks"
        + " and its Adam for CPUs" * choice.cpu_adam
        + ", about a minute",
        remedy="it needs a working g++ with OpenMP",
    )


def united(checkout: Path) -> tuple[str, str]:
    """Return the variable with which the sources of an extension are compiled as one."""
    return "PYTHONPATH", str(checkout / UNITED)


def blas_stages(checkout: Path, env: Path, machine: str = platform.machine()) -> tuple[SetupStage, ...]:
    """Return the stage that compiles the library of device.blas=full; none where there is no MKL."""
    if machine != MKL_MACHINE:
        return ()
    source = checkout / "bench" / "setup" / "mkl_vendor.c"
    # CXX is the user's compiler if there is one. The two functions need no other library, not even libc.
    compile_library = '"$CXX" -x c -O2 -shared -fPIC -nostdlib -o "$0" "$1"'
    return (
        SetupStage(
            name="blas",
            commands=(("sh", "-c", compile_library, str(env / MKL_LIBRARY), str(source)),),
            discards=(MKL_LIBRARY,),
            proof=(MKL_LIBRARY,),
            inputs=(source,),
            does="g++ compiles the two functions of device.blas=full, 1 s",
            remedy="it needs a working g++",
        ),
    )


def python(env: Path) -> str:
    """Return an environment's interpreter."""
    return str(env / "bin" / "python")


def prove(env: Path, *proof: str) -> tuple[str, ...]:
    """Return the command that ends with 0 if what a stage has made works."""
    return (python(env), "-m", "bench.setup.inside.proofs", *proof)


def uv(env: Path) -> tuple[str, ...]:
    """Return the command uv, with the settings of pip."""
    return (python(env), "-m", "bench.setup.uv")


def compile_bytecode(env: Path, folder: str) -> tuple[str, ...]:
    """Return the command that compiles a folder of the packages; Python compiles what is left when needed."""
    compile_all = '"$0" -m compileall -q -j 0 -x "$1" "$2"/$3 || true'  # some files are of another Python
    return ("sh", "-c", compile_all, python(env), SELDOM_IMPORTED, str(env), f"{SITE}/{folder}")


STACKS = {
    stack.name: stack
    for stack in (
        Stack(
            name="ort",
            folder=".venv",
            # onnxruntime-training-cpu has a wheel for 3.12, onnxruntime-training none.
            pythons={"cpu": ("3.11", "3.12", "3.10"), "cuda": ("3.11", "3.10")},
            cuda=TORCHS_CUDA,
            driver="525.60.13",
            capabilities=("7.5", "9.0"),
            machine="x86_64",
            disk_gib={"cpu": 8, "cuda": 14},
            stages=ort_stages,
        ),
        Stack(
            name="modern",
            folder=".venv-modern",
            pythons=dict.fromkeys(DEVICES, ("3.11", "3.12", "3.13")),
            cuda="13.0",
            driver="580.65.06",
            capabilities=("7.5", ""),
            machine="",
            disk_gib={"cpu": 8, "cuda": 8},
            stages=modern_stages,
        ),
    )
}
"""The supported ones, the default first."""
