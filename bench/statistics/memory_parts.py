"""A backend's peak of memory, divided into what is known of it."""

from dataclasses import dataclass

from bench.results.arithmetic import mib
from bench.results.column_arrays import ColumnArrays
from bench.statistics.backend_blocks import highest


@dataclass(frozen=True, kw_only=True)
class MemoryParts:
    """A peak, divided; MiB of the rank or device that has most.

    The peak and `runtime` are measured, the next three are predicted (bench.results.prediction), and `rest`
    is what remains: activations, buffers, fragments. On a host some of the libraries' pages may be paged out
    again, so `rest` is a difference, no measurement.
    """

    runtime: float | None
    weights: float
    gradients: float
    optimizer: float
    rest: float
    with_libraries: bool = False  # `rest` has the host's libraries, too, since what they took is not known


def divide_peak(valid: ColumnArrays) -> MemoryParts | None:
    """Divide the highest peak of valid blocks: the device's where there is one, else the host's.

    None if the peak or the number of parameters is unknown, or if the parts add up to more than the peak.
    """
    on_cpu = valid["device"][0] == "cpu"
    peak = highest(valid["host_peak_mib" if on_cpu else "device_peak_mib"])
    sizes = [highest(valid[f"predicted_{part}_bytes"]) for part in ("weights", "gradients", "optimizer")]
    predicted = [mib(size) for size in sizes if size is not None]
    if peak is None or len(predicted) < len(sizes):
        return None
    runtime = highest(valid["host_runtime_mib"]) if on_cpu else None
    rest = peak - sum(predicted) - (runtime or 0.0)
    if rest < 0:
        return None
    weights, gradients, optimizer = predicted
    return MemoryParts(
        runtime=runtime,
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        rest=rest,
        with_libraries=on_cpu and runtime is None,
    )
