"""Lists the GPUs that CUDA would show to this process, through NVML: no torch, no CUDA context."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One visible GPU."""

    index: int  # of torch's `cuda:<index>` under CUDA_DEVICE_ORDER=PCI_BUS_ID, NVML's order
    uuid: str  # as NVML writes it, "GPU-…"; torch leaves the prefix out
    name: str
    memory_total_bytes: int
    driver: str
    capability: tuple[int, int]  # of CUDA: major and minor
    near_cores: tuple[int, ...]  # of the NUMA node that it is attached to; empty if NVML does not say


def visible_gpus() -> list[Gpu]:
    """The GPUs of this machine that CUDA_VISIBLE_DEVICES allows, in its order; [] without any."""
    return list_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))


def list_gpus(setting: str | None) -> list[Gpu]:
    """The GPUs that a value of CUDA_VISIBLE_DEVICES shows, None all; UserError if one does not answer."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return []
    except pynvml.NVMLError as error:
        raise UserError(
            f"The NVIDIA driver does not answer (NVML: {error})", "repair it, or choose device=cpu"
        ) from error
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        return [
            Gpu(
                index=index,
                uuid=pynvml.nvmlDeviceGetUUID(handle),
                name=pynvml.nvmlDeviceGetName(handle),
                memory_total_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                driver=driver,
                capability=pynvml.nvmlDeviceGetCudaComputeCapability(handle),
                near_cores=_near_cores(pynvml, handle),
            )
            for index, handle in enumerate(_visible_handles(pynvml, setting))
        ]
    except pynvml.NVMLError as error:
        raise UserError(
            f"A GPU does not answer (NVML: {error})",
            "repair it (nvidia-smi names it), leave it out of CUDA_VISIBLE_DEVICES, or choose device=cpu",
        ) from error
    finally:
        pynvml.nvmlShutdown()


def select_visible(uuids: Sequence[str], setting: str | None) -> list[int]:
    """The places of the GPUs that a value of CUDA_VISIBLE_DEVICES shows, in its order, as CUDA reads it.

    Indices, UUIDs or beginnings of them count up to the first that names no GPU (-1, for one); a GPU named
    twice, or a beginning that fits several, leaves none.
    """
    if setting is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in map(str.strip, setting.split(",")):
        if setting.strip().startswith("GPU-"):
            places = [place for place, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
        else:
            places = [int(entry)] if entry.isdigit() and int(entry) < len(uuids) else []
        if not places:
            break
        if len(places) > 1 or places[0] in chosen:
            return []
        chosen += places
    return chosen


def describe_first_use(gpus: Sequence[Gpu]) -> str:
    """What ONNX Runtime's first step on these GPUs needs time for; empty if nothing.

    The wheel of 1.19.2 has machine code up to compute capability 8.6, which later ones of 8 run, too.
    """
    newer = sorted({gpu.capability for gpu in gpus if gpu.capability[0] > 8})
    if not newer:
        return ""
    return (
        f"ONNX Runtime has no machine code for compute capability {newer[0][0]}.{newer[0][1]}: the driver "
        "compiles its kernels at their first use, which takes minutes, and keeps them for later ones"
    )


def short_name(name: str) -> str:
    """A GPU's name for file names and columns: `NVIDIA H200` becomes `h200`."""
    bare = re.sub(r"^(nvidia|tesla)\s+", "", name.strip().lower())
    return re.sub(r"[^a-z0-9.]+", "-", bare).strip("-.") or "gpu"


def _visible_handles(nvml: Any, setting: str | None) -> list[Any]:
    handles, uuids = [], []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
        except nvml.NVMLError_NoPermission:  # a cgroup hides it, from CUDA as well
            continue
        except nvml.NVMLError as error:  # CUDA_VISIBLE_DEVICES may leave it out
            handle, uuid = error, ""
        handles.append(handle)
        uuids.append(uuid)
    chosen = [handles[place] for place in select_visible(uuids, setting)]
    for handle in chosen:
        if isinstance(handle, nvml.NVMLError):
            raise handle
    return chosen


def _near_cores(nvml: Any, handle: Any) -> tuple[int, ...]:
    """NVML answers with a mask, in words of 64 cores."""
    words = -(-(os.cpu_count() or 1) // 64)
    try:
        mask = nvml.nvmlDeviceGetCpuAffinity(handle, words)
    except nvml.NVMLError:
        return ()
    return tuple(64 * place + bit for place, word in enumerate(mask) for bit in range(64) if word >> bit & 1)
