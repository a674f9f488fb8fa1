"""Warns where a comparison was not measured steadily: the reason in numbers, and what to do about it.

Everything is read off the rows of one comparison. A warning never changes a figure; what must not count is
`invalid` already (`bench.results.validity`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bench.config.choices import LOSS_TOLERANCE, OTHER_UPDATES
from bench.errors import plural
from bench.machine.telemetry.gpu_sampler import BUSY_BYTES, BUSY_PERCENT
from bench.results.column_arrays import ColumnArrays
from bench.results.validity import REMEDIES, WAITING_GPU_PERCENT
from bench.statistics.backend_blocks import highest, loader_share
from bench.statistics.intervals import Floats
from bench.statistics.table_values import by_key, latest_overrides
from bench.study import from_parts

Warnings = Iterator[tuple[str, str, str]]  # what kind each warning is of, what was seen, and the remedy

DRIFT = 0.03
"""Change of a backend's throughput from a launch's first round to its last, above which it drifts."""

LAUNCH_SPREAD = 0.03  # standard deviation of the log throughput between launches
STANDARD_ERRORS = 3.0  # an effect smaller than this multiple of its standard error is taken for noise
LOAD_SHARE = 0.02  # share of the ranks' core time over all blocks, taken by other processes or the hypervisor

LOADER_SHARE = 0.05
"""Share of a block's time, waited for batches, above which the loader limits a run, not only the device."""

CLOCK_DROP = 0.05  # a block's clock, of GPU or processor, below the backend's median by more than this share

UNEXPLAINED_MIB = 500.0
"""Growth of device memory from block to block that is not torch's, above which another process has joined."""

WIDE_MARGIN = 0.05  # a `measure.margin` above this, more than twice the default, is warned of
FEWEST_READINGS = 3  # of NVML, which gives none for some blocks below a second

END_OTHERS = "end other processes there, or choose other devices with CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class SteadinessWarning:
    """One thing that makes a comparison less trustworthy than its interval says."""

    backend: str  # empty: all of them together
    kind: str
    reason: str  # what was seen, in numbers
    remedy: str  # empty if there is none

    def __str__(self) -> str:
        who = f"{self.backend}: " if self.backend else ""
        return f"{who}{self.reason}" + (f"; {self.remedy}" if self.remedy else "")


def find_warnings(rows: pd.DataFrame) -> list[SteadinessWarning]:
    """Every warning of one comparison: those about all backends together, then backend by backend."""
    cells = ColumnArrays(rows)
    of_all = (*_check_gates(rows), *_check_best(cells), *from_parts("warnings", "find_warnings", rows))
    warnings = [SteadinessWarning("", *warning) for warning in of_all]
    for backend in dict.fromkeys(cells["backend"]):
        blocks = cells.where((cells["backend"] == backend) & ~np.isnan(cells["round"]))
        warnings += [SteadinessWarning(str(backend), *warning) for warning in _check_backend(blocks)]
    return warnings


def _check_gates(rows: pd.DataFrame) -> Warnings:
    """Limits that were set wider than the defaults, by the command or by a user's preset."""
    default = max(LOSS_TOLERANCE[precision] for precision in rows["precision"].unique())
    asked = by_key(latest_overrides(rows)).get("measure.parity_tolerance")
    passed = rows["loss_difference"][~rows["optimizer"].isin(OTHER_UPDATES)].max()
    widest = np.nanmax([default, pd.to_numeric(asked or "", errors="coerce"), passed])
    if widest > default:
        seen = f"losses may differ from the reference's by {widest:.2g} and pass, {default:g} is the default"
        yield "wide gate", seen, "leave out measure.parity_tolerance"
    margin = rows["margin"].max()
    if margin > WIDE_MARGIN:
        seen = f"speed-ups up to {margin:.0%} are called `same`"
        yield "wide gate", seen, "leave out measure.margin"


def _check_best(cells: ColumnArrays) -> Warnings:
    """On GPUs a comparison with eager PyTorch alone says nothing against PyTorch."""
    is_timed = (cells["status"] == "ok") & ~np.isnan(cells["round"])
    if is_timed.any() and "cpu" not in cells["device"] and "compile" not in cells["engine"][is_timed]:
        seen = "no compiled PyTorch was timed here, which is PyTorch at its best on most GPUs"
        yield "not compiled", seen, "compare compile_best, too, on the modern stack"


def _check_backend(blocks: ColumnArrays) -> Warnings:
    valid = blocks.where(blocks["status"] == "ok")
    if not len(valid):
        return
    logs = _log_throughput(valid)
    yield from _check_warm_up(valid)
    yield from _check_drift(logs)
    yield from _check_launches(logs)
    yield from _check_contamination(blocks)
    yield from _check_load(valid)
    yield from _check_loader(valid)
    yield from _check_cpu(valid)
    yield from _check_gpu(valid)


def _log_throughput(valid: ColumnArrays) -> Floats:
    """Log throughput, launches as rows, rounds as columns; NaN where a block is missing."""
    launches, row = np.unique(valid["launch"], return_inverse=True)
    column = valid["round"].astype(int) - 1
    table = np.full((len(launches), int(column.max()) + 1), math.nan)
    table[row, column] = np.log(valid["samples_per_s"])
    return table


def _check_warm_up(valid: ColumnArrays) -> Warnings:
    launches, first = np.unique(valid["launch"], return_index=True)
    unsettled = int((valid["warm_up_settled"][first] == 0).sum())
    if unsettled:
        seen = f"still warming up when the blocks began, in {unsettled} of {len(launches)} launches"
        yield "unsettled", seen, "raise measure.warmup_steps"


def _check_drift(logs: Floats) -> Warnings:
    """A straight line through the rounds of each launch but the first, which may still warm up."""
    changes = np.array([_linear_change(launch) for launch in logs[:, 1:]])
    changes = changes[~np.isnan(changes)]
    if len(changes) == 0:
        return
    direction = np.sign(changes.mean())
    if _stands_out(changes * direction, DRIFT):
        change = f"{_percent(abs(changes.mean()))} {'slower' if direction < 0 else 'faster'}"
        seen = f"becomes {change} from the second round of a launch to its last"
        yield "drift", seen, "let the machine cool down or warm up, and measure more launches of fewer rounds"


def _linear_change(launch: Floats) -> float:
    """The change from the first of these rounds to the last, on a straight line through the measured ones."""
    there = np.flatnonzero(~np.isnan(launch))
    if len(there) < 3:
        return math.nan
    places = there - there.mean()
    return float(places @ launch[there] / (places @ places) * (len(launch) - 1))


def _check_launches(logs: Floats) -> Warnings:
    means = np.nanmean(logs, axis=1)
    if len(means) >= 3 and (spread := float(means.std(ddof=1))) > LAUNCH_SPREAD:
        seen = f"launches differ by {_percent(spread)} SD"
        yield "launches differ", seen, "measure more launches or set measure.target_half_width"


def _check_contamination(blocks: ColumnArrays) -> Warnings:
    bad = blocks.where(blocks["status"] == "invalid")
    if len(bad):
        seen = f"{plural(len(bad), 'invalid block')}, the last: {bad['message'][-1]}"
        yield "contaminated", seen, REMEDIES[bad["invalid_because"][-1]]


def _check_load(valid: ColumnArrays) -> Warnings:
    core_seconds = (valid["seconds"] * valid["world_size"] * valid["cores_per_rank"]).sum()
    for column, who, remedy in (
        ("other_cpu_seconds", "other processes", "end other work on this machine"),
        ("stolen_seconds", "the hypervisor", "use a machine whose cores are not shared"),
    ):
        taken = float(np.nansum(valid[column]))  # blank counts as nothing
        if taken > LOAD_SHARE * core_seconds:
            yield ("load", f"{who} had {_percent(taken / core_seconds)} of the ranks' cores", remedy)


def _check_loader(valid: ColumnArrays) -> Warnings:
    share = loader_share(valid)
    if share is not None and share > LOADER_SHARE:
        seen = f"ranks waited {_percent(share)} of the time for batches, so that speed-ups look smaller"
        remedy = "raise data.workers, and give each rank more cores with device.threads where there are any"
        yield "loader", seen, remedy


def _check_cpu(valid: ColumnArrays) -> Warnings:
    hot = int((valid["cpu_throttles"] > 0).sum())
    if hot:
        seen = f"the processor slowed down for heat in {hot} of {len(valid)} blocks"
        remedy = "improve the cooling, or limit the clock below that (cpupower frequency-set --max)"
        yield "throttled", seen, remedy
    slow = _count_slow_clocks(valid["cpu_clock_mhz"])
    if slow:
        low = f"{CLOCK_DROP:.0%} or more below its median in {slow} of {len(valid)} blocks"
        remedy = "hold it (cpupower frequency-set --governor performance)"
        yield "clock", f"the processor's clock was {low}", remedy


def _count_slow_clocks(clocks: Floats) -> int:
    known = clocks[~np.isnan(clocks)]
    return int((known < (1 - CLOCK_DROP) * np.median(known)).sum()) if known.size else 0


def _check_gpu(valid: ColumnArrays) -> Warnings:
    cells = valid["gpu_throttled_by"]
    reasons = sorted({word for cell in cells for word in cell.split(", ") if word})
    if reasons:
        count = int((cells != "").sum())
        seen = f"the GPU held back its clock in {count} of {len(valid)} blocks ({', '.join(reasons)})"
        first = "raise the power limit" if reasons == ["power cap"] else "improve the cooling"
        yield "throttled", seen, f"{first}, or lock a clock that it can hold (nvidia-smi --lock-gpu-clocks)"
    slow = _count_slow_clocks(valid["gpu_clock_mhz"])
    if slow:
        seen = f"the GPU's clock was over {CLOCK_DROP:.0%} below its median in {slow} of {len(valid)} blocks"
        yield "clock", seen, "lock the clocks (nvidia-smi --lock-gpu-clocks)"
    readings = valid["gpu_utilisation"][~np.isnan(valid["gpu_utilisation"])]
    share = float(np.median(readings)) if readings.size >= FEWEST_READINGS else 100.0
    if share < WAITING_GPU_PERCENT and (loader_share(valid) or 0.0) <= LOADER_SHARE:
        seen = f"the GPU was busy for {share:.0f} % of the time, and probably waited for the CPU to start"
        fills = highest(valid["saturating_micro_batch"]) or 0
        larger = "raise micro_batch"
        if fills > valid["micro_batch"].max():
            larger = f"set micro_batch={fills:.0f}, which fills it (micro_batch=saturating)"
        yield "CPU-bound", f"{seen} kernels", f"{larger}, or compare compile_best"
    before, busy = (
        highest(valid[column]) or 0.0 for column in ("device_baseline_mib", "gpu_utilisation_before")
    )
    if before * 2**20 > BUSY_BYTES or busy > BUSY_PERCENT:
        seen = f"somebody else was on the GPU: {before:,.0f} MiB in use, {busy:.0f} % busy before a launch"
        yield "busy GPU", seen, END_OTHERS
    launches = [valid.where(valid["launch"] == number) for number in set(valid["launch"])]
    unexplained = max(
        _range(launch["device_peak_mib"]) - _range(launch["torch_peak_reserved_mib"]) for launch in launches
    )
    if unexplained > UNEXPLAINED_MIB:
        seen = f"device memory changed by {unexplained:,.0f} MiB within a launch, and not by torch"
        yield "busy GPU", seen, END_OTHERS


def _range(values: Floats) -> float:
    """The distance from the lowest value to the highest; 0 without values."""
    return 0.0 if np.isnan(values).all() else float(np.nanmax(values) - np.nanmin(values))


def _stands_out(effects: Floats, least: float) -> bool:
    """Whether the mean over launches exceeds `least` and, with several launches, its own noise."""
    if len(effects) == 0 or effects.mean() <= least:
        return False
    if len(effects) == 1:
        return True
    error = effects.std(ddof=1) / np.sqrt(len(effects))
    return bool(effects.mean() > STANDARD_ERRORS * error)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
