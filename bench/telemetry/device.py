"""One rank's view of its own GPU through NVML: memory in use and the energy counter."""

from typing import Any


class DeviceMeter:
    """Reads one GPU, found by its UUID since NVML ignores CUDA_VISIBLE_DEVICES.

    Make it before anything of this process touches the device: what is in use then is not ours.

    Args:
        uuid: as NVML writes it, "GPU-…" or "MIG-…"; None on a CPU.
    """

    def __init__(self, uuid: str | None) -> None:
        self.nvml: Any = None
        if uuid is None:
            return
        import pynvml

        try:
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self.nvml = pynvml
            self.baseline = pynvml.nvmlDeviceGetMemoryInfo(self.handle).used
        except pynvml.NVMLError:
            self.nvml = None

    def used_bytes(self) -> int | None:
        """Memory in use on the device minus what was in use before this rank; None where unknown."""
        if self.nvml is None:
            return None
        try:
            return int(self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used - self.baseline)
        except self.nvml.NVMLError:
            return None

    def energy_joules(self) -> float | None:
        """The device's energy counter since the driver was loaded (NVML counts in mJ); None where unknown."""
        if self.nvml is None:
            return None
        try:
            return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) / 1000
        except self.nvml.NVMLError:
            return None
