"""How one GPU was doing at one moment, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GpuSample:
    """How one GPU was doing at one moment; None where NVML cannot read it."""

    used_bytes: int | None  # of the whole device, whoever uses it
    utilisation_percent: float | None
    sm_clock_mhz: float | None
    temperature_c: float | None
    power_watts: float | None
    throttled_by: tuple[str, ...] | None
