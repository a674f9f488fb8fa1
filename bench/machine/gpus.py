"""Lists the GPUs that CUDA would show to this process, through NVML: no torch, no CUDA context."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bench.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One visible GPU.

    `index` is its place among the visible ones: torch's `cuda:<index>`. On a machine with several
    kinds of GPUs this holds only under CUDA_DEVICE_ORDER=PCI_BUS_ID, the order that NVML counts in.
    """

    index: int
    uuid: str  # as NVML writes it, "GPU-…" or "MIG-…"; torch leaves the prefix out
    name: str
    memory_total_bytes: int  # 0 if NVML does not say
    driver: str
    capability: tuple[int, int]  # of CUDA: major and minor
    near_cores: tuple[int, ...]  # of the NUMA node that it is attached to; empty if NVML does not say
    slices: tuple[str, ...] | None = None  # into which MIG divides it, by UUID; None where MIG is off


def visible_gpus() -> list[Gpu]:
    """The GPUs of this machine that CUDA_VISIBLE_DEVICES allows, in its order; [] without any."""
    return list_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))


def list_gpus(setting: str | None) -> list[Gpu]:
    """The GPUs that a value of CUDA_VISIBLE_DEVICES shows; None shows all.

    UserError if there is a driver, but NVML cannot talk to it or to one of these GPUs.
    """
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
                memory_total_bytes=_memory_total(pynvml, handle),
                driver=driver,
                capability=_capability(pynvml, handle),
                near_cores=_near_cores(pynvml, handle),
                slices=_slices(pynvml, handle),
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
    """The places of the GPUs that a value of CUDA_VISIBLE_DEVICES shows, in its order.

    As CUDA reads it: unset shows all; a list of indices, or of UUIDs or beginnings of them, counts
    up to its first entry that names no GPU (-1, for one); a GPU named twice, or a beginning that
    fits several, leaves none.
    """
    if setting is None:
        return list(range(len(uuids)))
    by_uuid = setting.strip().startswith("GPU-")
    chosen: list[int] = []
    for entry in map(str.strip, setting.split(",")):
        if by_uuid:
            places = [
                place
                for place, uuid in enumerate(uuids)
                if entry.startswith("GPU-") and uuid.startswith(entry)
            ]
        else:
            number = re.match(r"\+?\d+", entry, re.ASCII)  # CUDA reads "1abc" as 1, as C's strtoul does
            places = [int(number[0])] if number and int(number[0]) < len(uuids) else []
        if not places:
            break
        if len(places) > 1 or places[0] in chosen:
            return []
        chosen += places
    return chosen


def check_undivided(gpus: Sequence[Gpu]) -> None:
    """Refuse GPUs that MIG divides: CUDA shows a process one slice, and NVML reads all of them together."""
    for gpu in gpus:
        if gpu.slices is not None:
            choose = f"choose one of them: CUDA_VISIBLE_DEVICES={' or '.join(gpu.slices)}"
            raise UserError(
                f"{gpu.name} {gpu.uuid} is divided into slices (MIG), and CUDA shows only one of them",
                f"{choose if gpu.slices else 'make one (nvidia-smi mig)'}, or switch MIG off",
            )


def describe_first_use(gpus: Sequence[Gpu]) -> str:
    """What ONNX Runtime's first step on these GPUs needs time for; empty if nothing special.

    The wheel of 1.19.2 has machine code for compute capabilities 6.0 to 8.6, which newer GPUs of the same
    major version run, too, and for others code that the driver compiles.
    """
    newer = sorted({gpu.capability for gpu in gpus if gpu.capability[0] > 8})
    if not newer:
        return ""
    return (
        f"ONNX Runtime has no machine code for compute capability {newer[0][0]}.{newer[0][1]}: the driver "
        "compiles its kernels at their first use, once for this environment, which takes minutes"
    )


def short_name(name: str) -> str:
    """A GPU's name for file names and columns: `NVIDIA H200` becomes `h200`."""
    bare = re.sub(r"^(nvidia|tesla)\s+", "", name.strip().lower())
    return re.sub(r"[^a-z0-9.]+", "-", bare).strip("-.") or "gpu"


def _visible_handles(nvml: Any, setting: str | None) -> list[Any]:
    if setting is not None and setting.strip().startswith("MIG-"):
        # A slice of a GPU. CUDA shows a process one slice at most, so what follows does not count.
        try:
            return [nvml.nvmlDeviceGetHandleByUUID(setting.split(",")[0].strip())]
        except (nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
            return []
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


def _memory_total(nvml: Any, handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError_NoPermission:  # of a GPU that MIG divides, which `check_undivided` refuses
        return 0


def _slices(nvml: Any, handle: Any) -> tuple[str, ...] | None:
    try:
        if not nvml.nvmlDeviceGetMigMode(handle)[0]:
            return None
        places = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except nvml.NVMLError:  # it knows no MIG, or is a slice itself
        return None
    slices = []
    for index in range(places):
        with suppress(nvml.NVMLError):  # not every index has one
            slices.append(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)))
    return tuple(slices)


def _capability(nvml: Any, handle: Any) -> tuple[int, int]:
    """The compute capability; the whole GPU's where a slice does not say its own."""
    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError:
        whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(whole)
    return major, minor


def _near_cores(nvml: Any, handle: Any) -> tuple[int, ...]:
    """NVML answers with a mask, in words of 64 cores."""
    words = -(-(os.cpu_count() or 1) // 64)
    try:
        mask = nvml.nvmlDeviceGetCpuAffinity(handle, words)
    except nvml.NVMLError:  # a slice of a GPU has none
        return ()
    return tuple(64 * place + bit for place, word in enumerate(mask) for bit in range(64) if word >> bit & 1)
