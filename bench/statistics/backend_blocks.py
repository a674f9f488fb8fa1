"""The blocks of one backend: which of them count, and what they say without any other backend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.results.arithmetic import mib
from bench.results.column_arrays import ColumnArrays
from bench.statistics.intervals import Floats, midmean

_LAUNCH_STRIDE = 2.0**26
"""Makes one number of launch and round: a launch has fewer rounds, and a float holds the largest exactly."""


class BackendBlocks:
    """One backend's rows in a comparison; `valid` has the blocks that count."""

    def __init__(self, rows: ColumnArrays) -> None:
        self.rows = rows
        self.valid = rows.where(rows["status"] == "ok")
        self._log_throughput = np.log(self.valid["samples_per_s"])

    @property
    def stopped_by_width(self) -> bool:
        """Whether `measure.until` chose the number of launches."""
        return not np.isnan(self.valid["until"]).all()

    def samples_per_s(self) -> float:
        """Throughput of the valid blocks; at least one."""
        return _geometric_mean_of_midmeans(self.valid["launch"], self._log_throughput)

    def log_ratios(self, base: "BackendBlocks") -> dict[int, Floats]:
        """Log of the speed-up over `base` in each round in which both are valid, an array for each launch."""
        ours, theirs = (side.valid["launch"] * _LAUNCH_STRIDE + side.valid["round"] for side in (self, base))
        _, our_places, their_places = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        launches = self.valid["launch"][our_places]
        logs = self._log_throughput[our_places] - base._log_throughput[their_places]
        numbers = np.unique(launches).astype(int).tolist()
        return dict(zip(numbers, _split_by_launch(launches, logs), strict=True))

    def roofline_share(self) -> float | None:
        """Share of the limit, averaged as throughput is; None if a block lacks it."""
        shares = self.valid["roofline_share"]
        if np.isnan(shares).any():
            return None
        return _geometric_mean_of_midmeans(self.valid["launch"], np.log(shares))

    def energy_per_sample_j(self) -> float | None:
        """Joules of all devices over all blocks, for each sample; None if a block lacks them."""
        energy = self.valid["energy_j"]
        if np.isnan(energy).any():
            return None
        return float(energy.sum() / (self.valid["steps"] * self.valid["global_batch"]).sum())

    def median_over_launches(self, column: str) -> float | None:
        """The median of a figure that every row of a launch repeats, so that one row of each is read."""
        _, first = np.unique(self.valid["launch"], return_index=True)
        return median(self.valid[column][first])


def blocks_by_backend(cells: ColumnArrays) -> dict[str, BackendBlocks]:
    """The blocks of each backend of a comparison, in order of appearance."""
    return {
        str(name): BackendBlocks(cells.where(cells["backend"] == name))
        for name in dict.fromkeys(cells["backend"])
    }


def highest(values: Floats) -> float | None:
    """The highest of the values that are there; None without any."""
    return None if np.isnan(values).all() else float(np.nanmax(values))


def median(values: Floats) -> float | None:
    """The median of the values that are there; None without any."""
    return None if np.isnan(values).all() else float(np.nanmedian(values))


def loader_share(blocks: ColumnArrays) -> float | None:
    """Share of a block's seconds that ranks waited for batches, median over the blocks; None: none waited."""
    return median(blocks["loader_s"] / blocks["seconds"])


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


def _geometric_mean_of_midmeans(launches: Floats, logs: Floats) -> float:
    """The geometric mean over launches of each launch's midmean, from logarithms."""
    return math.exp(np.mean([midmean(launch) for launch in _split_by_launch(launches, logs)]))


def _split_by_launch(launches: Floats, values: Floats) -> Sequence[Floats]:
    return [values[launches == number] for number in np.unique(launches)]
