"""The blocks of one backend: which of them count, and its figures that need no other backend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.results.arithmetic import mib
from bench.results.column_arrays import ColumnArrays
from bench.statistics.intervals import Floats, Speedup, launch_midmeans, speedup_of_launches
from bench.statistics.table_values import stopped_by_width

_LAUNCH_STRIDE = 2.0**26
"""Factor that combines launch and round in one number: a launch has fewer rounds, and floats stay exact."""


WITHOUT_FILES, WITH_FILES = "host_anonymous_peak_mib", "host_peak_mib"
"""The peak of what training holds on the host, and that of all memory, in which libraries' files are."""

RUNTIME = {WITHOUT_FILES: "host_runtime_anonymous_mib", WITH_FILES: "host_runtime_mib"}
"""By the column of a host's peaks, the column of the memory in use before the model was built."""


class BackendBlocks:
    """One backend's rows in a comparison; `valid` has the blocks that count, `peak_column` its memory."""

    def __init__(self, rows: ColumnArrays, peak_column: str) -> None:
        self.rows, self.peak_column = rows, peak_column
        self.valid = rows.where(rows["status"] == "ok")
        self._log_throughput = np.log(self.valid["samples_per_s"])

    def samples_per_s(self) -> float:
        """Throughput of the valid blocks; at least one."""
        return _geometric_mean(self.log_throughput())

    def log_throughput(self) -> list[Floats]:
        """Log of samples/s, an array for each launch."""
        return self.by_launch(self._log_throughput)

    def by_launch(self, values: Floats) -> list[Floats]:
        """Values of the valid blocks, an array for each launch, without those that are missing."""
        known = ~np.isnan(values)
        return list(_split_by_launch(self.valid["launch"][known], values[known]).values())

    def peaks_mib(self) -> Floats:
        """The peak of memory of each valid block."""
        return self.valid[self.peak_column]

    def speedup_over(self, base: "BackendBlocks") -> Speedup | None:
        """The speed-up over another backend; None without common rounds."""
        launches = list(self.log_ratios(base).values())
        if not launches:
            return None
        return speedup_of_launches(launches, stopped_by_width=stopped_by_width(self.valid, base.valid))

    def log_ratios(self, base: "BackendBlocks") -> dict[int, Floats]:
        """Log of the speed-up over `base` in each round in which both are valid, an array for each launch."""
        ours, theirs = (side.valid["launch"] * _LAUNCH_STRIDE + side.valid["round"] for side in (self, base))
        _, our_places, their_places = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        logs = self._log_throughput[our_places] - base._log_throughput[their_places]
        return _split_by_launch(self.valid["launch"][our_places], logs)

    def roofline_share(self) -> float | None:
        """Share of the limit, averaged as throughput is; None if a block lacks it."""
        shares = self.valid["roofline_share"]
        if np.isnan(shares).any():
            return None
        return _geometric_mean(self.by_launch(np.log(shares)))

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


def blocks_of(rows: pd.DataFrame, backend: str) -> BackendBlocks:
    """The blocks of one backend of a comparison; empty if the comparison does not have it."""
    cells = ColumnArrays(rows)
    return BackendBlocks(cells.where(cells["backend"] == backend), find_peak_column(cells))


def blocks_by_backend(cells: ColumnArrays) -> dict[str, BackendBlocks]:
    """The blocks of each backend of a comparison, in order of appearance."""
    column = find_peak_column(cells)
    return {
        str(name): BackendBlocks(cells.where(cells["backend"] == name), column)
        for name in dict.fromkeys(cells["backend"])
    }


def find_peak_column(cells: ColumnArrays) -> str:
    """The column of a comparison's peaks: a device's, of what training holds, or, in older files, of all."""
    valid = cells.where(cells["status"] == "ok")
    if not (valid["device"] == "cpu").any():
        return "device_peak_mib"
    return WITH_FILES if np.isnan(valid[WITHOUT_FILES]).any() else WITHOUT_FILES


def at_reference_precision(cells: ColumnArrays) -> ColumnArrays:
    """The rows of a comparison that have the reference's precision."""
    of_reference = cells["precision"][cells["backend"] == cells["reference"]]
    return cells.where(np.isin(cells["precision"], of_reference))


def highest(values: Floats) -> float | None:
    """The highest of the values that are not NaN; None without any."""
    return None if np.isnan(values).all() else float(np.nanmax(values))


def median(values: Floats) -> float | None:
    """The median of the values that are not NaN; None without any."""
    return None if np.isnan(values).all() else float(np.nanmedian(values))


def loader_share(blocks: ColumnArrays) -> float | None:
    """Share of a block's seconds that ranks waited for batches, median over the blocks; None: none waited."""
    return median(blocks["loader_s"] / blocks["seconds"])


@dataclass(frozen=True, kw_only=True)
class MemoryParts:
    """A peak, divided; MiB of the rank or device that has most.

    The peak and `runtime` are measured, the next three are predicted (bench.results.prediction), and `rest`
    is what remains: activations, buffers, fragments: a difference, no measurement.
    """

    runtime: float | None
    weights: float
    gradients: float
    optimizer: float
    rest: float


def divide_peak(blocks: BackendBlocks) -> MemoryParts | None:
    """Divide the highest peak of at least one valid block.

    None if the peak, a host's memory before the model, or the number of parameters is unknown, or if the
    parts add up to more than the peak.
    """
    valid, peak = blocks.valid, highest(blocks.peaks_mib())
    before_model = RUNTIME.get(blocks.peak_column)
    sizes = [highest(valid[f"predicted_{part}_bytes"]) for part in ("weights", "gradients", "optimizer")]
    predicted = [mib(size) for size in sizes if size is not None]
    runtime = highest(valid[before_model]) if before_model else None
    if peak is None or len(predicted) < len(sizes) or (before_model and runtime is None):
        return None
    rest = peak - sum(predicted) - (runtime or 0.0)
    if rest < 0:
        return None
    weights, gradients, optimizer = predicted
    return MemoryParts(runtime=runtime, weights=weights, gradients=gradients, optimizer=optimizer, rest=rest)


def _geometric_mean(launches: Sequence[Floats]) -> float:
    return math.exp(launch_midmeans(launches).mean())


def _split_by_launch(launches: Floats, values: Floats) -> dict[int, Floats]:
    return {int(number): values[launches == number] for number in np.unique(launches)}
