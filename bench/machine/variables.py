"""The environment variables of a worker group: the same for every backend of a comparison."""

import sys
from collections.abc import Mapping
from pathlib import Path

from bench.setup.checkout import ROOT
from bench.setup.recipes import CUDA_HOME, MKL_LIBRARY

SECRET_VARIABLE = "BENCH_SECRET"  # environment variable that the user sets to the same on all nodes

REMOVED = (
    *("ORT_", "ORTMODULE_", "DS_", "DEEPSPEED_", "PYTORCH_", "ATEN_"),
    "TORCH",  # TORCH_, TORCHELASTIC_, TORCHDYNAMO_, TORCHINDUCTOR_ …
    # What accelerate, and with it transformers' Trainer, takes for an answer of `accelerate launch`.
    *("ACCELERATE_", "FSDP_", "MEGATRON_LM_", "PARALLELISM_CONFIG_", "SM_", "SMDATAPARALLEL_"),
    *("XLA_", "PJRT_DEVICE", "USE_TORCH", "USE_TF", "USE_FLAX", "USE_JAX", "FORCE_TF_AVAILABLE"),
    *("FLASH_ATTENTION_", "TRITON_INTERPRET", "HF_DATASETS_IN_MEMORY_MAX_SIZE"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "ONEDNN_", "DNNL_", "MALLOC_", "GLIBC_TUNABLES"),
    *("CUBLAS_", "CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE"),
)
"""Beginnings of variables that would change what is measured; the harness sets what it needs itself."""

# torch sets the one itself when it compiles; the other starts a process early, which ranks never do
UNNAMED = ("TORCHINDUCTOR_CACHE_DIR", "TORCH_WARM_POOL")
"""Variables that ranks do not get either, but that the user is not warned about."""

TUNED_MALLOC = {
    # Keep freed memory: with glibc's defaults each large temporary is mapped and faulted in anew, which
    # slows eager PyTorch on a CPU by a third and ORTModule, which plans its memory, hardly at all.
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    # Only the main arena can keep blocks above 64 MiB; one for all threads also grows less.
    "MALLOC_ARENA_MAX": "1",
    # Where the kernel gives huge pages to those who ask: eager's heap still grows now and then in a block,
    # 60 MiB at once on bert-tiny, which cost 5 to 20 % of a block in small pages and next to nothing so.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def worker_variables(
    base: Mapping[str, str],
    *,
    device: str,
    threads: int,
    allocator: str,
    blas: str,
    precision: str,
    checkpointing: bool,
    prefix: Path = Path(sys.prefix),
) -> dict[str, str]:
    """Return the coordinator's variables, `base`, without `REMOVED` and with the comparison's settings."""
    variables = {
        name: value
        for name, value in base.items()
        if not name.startswith(REMOVED) and name != SECRET_VARIABLE
    }
    binaries = str(prefix / "bin")
    variables |= {
        "PATH": f"{binaries}:{base.get('PATH', '')}",  # torch searches for ninja there
        "PYTHONPATH": ":".join(filter(None, (str(ROOT), base.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "DS_ACCELERATOR": device,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as NVML counts, whose UUIDs name the ranks' devices
        # Nothing should be compiled at run time; what is, stays inside the environment.
        "TORCH_EXTENSIONS_DIR": str(prefix / "torch_extensions"),
        "ORTMODULE_FALLBACK_POLICY": "FALLBACK_DISABLE",
        "TOKENIZERS_PARALLELISM": "false",
        # By default importing DeepSpeed or ONNX Runtime starts a process that imports torch, for Triton's
        # kernels, which only `compile` has. Now its first kernel starts it: compiling may take longer.
        "TORCH_WARM_POOL": "0",
    }
    if device == "cuda":
        variables |= {
            # What a driver compiles at a kernel's first use, such as ONNX Runtime's for compute capabilities
            # after 8.6. The launch that checks parity does most of that; all later ones find it here.
            "CUDA_CACHE_PATH": base.get("CUDA_CACHE_PATH") or str(prefix / "cuda-cache"),
            "CUDA_CACHE_MAXSIZE": str(4 << 30),
            "CUDA_MODULE_LOADING": "LAZY",  # only the kernels that are used
        }
        if (prefix / CUDA_HOME).exists():
            # DeepSpeed's import asks for a compiler where there is a GPU, and must find this one first.
            variables["CUDA_HOME"] = str(prefix / CUDA_HOME)
    if device == "cpu":
        # With a visible GPU torch reports CUDA as available, and ORTModule would then use it.
        variables["CUDA_VISIBLE_DEVICES"] = ""
    if checkpointing:
        variables["ORTMODULE_MEMORY_OPT_LEVEL"] = "1"  # recompute all that can be, layer by layer
    if precision != "tf32":
        # For cuBLAS and cuDNN in any library: ONNX Runtime would use TF32 by default, torch would not.
        # In 16-bit precisions, too, some products stay in fp32.
        variables["NVIDIA_TF32_OVERRIDE"] = "0"
    if allocator == "tuned":
        variables |= TUNED_MALLOC
    if blas == "full":
        # The user's libraries come after it: the first one with a function's name is the one that is called.
        preloaded = filter(None, (str(prefix / MKL_LIBRARY), base.get("LD_PRELOAD")))
        variables["LD_PRELOAD"] = ":".join(preloaded)
    return variables


def removed_variables(base: Mapping[str, str]) -> list[str]:
    """The names of the variables that the user has set and the workers will not see."""
    return sorted(name for name in base if name.startswith(REMOVED) and name not in UNNAMED)
