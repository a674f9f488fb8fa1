"""Was the machine steady enough? Warnings as values: what was seen, in numbers, and what to do about it.

Everything is read off the rows of one comparison. A warning never changes a figure; what must not count is
`invalid` already (`bench.results.validity`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bench.analysis.backend_blocks import loader_share
from bench.machine.telemetry.gpu_sampler import BUSY_BYTES, BUSY_PERCENT
from bench.results.column_arrays import ColumnArrays
from bench.results.validity import Contamination

Floats = npt.NDArray[np.float64]

DRIFT = 0.03
"""Change of a backend's throughput from a launch's first round to its last, above which it drifts."""

SLOW_FIRST_ROUND = 0.03
"""Slowness of a launch's first round against its others."""

SPREAD = 0.05
"""Standard deviation of the log throughput of blocks within a launch."""

LAUNCH_SPREAD = 0.03
"""Standard deviation of the log throughput between launches."""

STANDARD_ERRORS = 3.0
"""How far an effect must stand out of its own noise to be called one."""

CLEFT = 4.0
"""Ashman's D (Ashman, Bird & Zepf 1994, AJ 108, 2348) of two clusters of blocks. They call 2 a clean
separation; the best split of a few normal values reaches 3 often and 4 rarely."""

CLEFT_DISTANCE = 0.03
"""Distance of two clusters in log throughput below which they do not matter."""

LOAD_SHARE = 0.02
"""Of the ranks' core time over all blocks, taken by other processes or the hypervisor."""

LOADER_SHARE = 0.05
"""Of a block's time, waited for batches, above which the loader limits a run and not only the device."""

CLOCK_DROP = 0.05
"""A block's clock, of GPU or processor, below the backend's median by more than this share."""

STRANGE_MIB = 500.0
"""Growth of device memory from block to block that is not torch's, above which somebody has joined."""

FEWEST_BLOCKS = 8
"""For statements about the shape of a distribution."""


@dataclass(frozen=True, kw_only=True)
class SteadinessWarning:
    """One thing that makes a comparison less trustworthy than its interval says."""

    kind: str
    backend: str
    reason: str  # what was seen, in numbers
    remedy: str

    def __str__(self) -> str:
        return f"{self.backend}: {self.reason}; {self.remedy}"


def find_warnings(rows: pd.DataFrame) -> list[SteadinessWarning]:
    """Every warning of one comparison, backend by backend."""
    found: list[SteadinessWarning] = []
    cells = ColumnArrays(rows)
    for backend in dict.fromkeys(cells["backend"]):
        blocks = cells.where((cells["backend"] == backend) & ~np.isnan(cells["round"]))
        valid = blocks.where(blocks["status"] == "ok")
        if not len(valid):
            continue
        logs = _by_round(valid)
        checks = (
            _unsettled(valid),
            _slow_first_round(logs),
            _drift(logs),
            _shape(logs),
            _launches(logs),
            _contaminated(blocks),
            _load(valid),
            _loader(valid),
            _cpu(valid),
            _gpu(valid),
        )
        found += [
            SteadinessWarning(kind=kind, backend=str(backend), reason=reason, remedy=remedy)
            for check in checks
            for kind, reason, remedy in check
        ]
    return found


Found = Iterator[tuple[str, str, str]]


def _by_round(valid: ColumnArrays) -> Floats:
    """Log throughput, launches as rows, rounds as columns; NaN where a block is missing."""
    launches, row = np.unique(valid["launch"], return_inverse=True)
    column = valid["round"].astype(int) - 1
    table = np.full((len(launches), int(column.max()) + 1), math.nan)
    table[row, column] = np.log(valid["samples_per_s"])
    return table


def _unsettled(valid: ColumnArrays) -> Found:
    launches, first = np.unique(valid["launch"], return_index=True)
    unsettled = int((valid["warm_up_settled"][first] == 0).sum())
    if unsettled:
        yield (
            "unsettled",
            f"still warming up when the blocks began, in {unsettled} of {len(launches)} launches",
            "raise measure.warmup_steps",
        )


def _slow_first_round(logs: Floats) -> Found:
    logs = logs[np.isfinite(logs[:, 0]) & np.isfinite(logs[:, 1:]).any(axis=1)]
    if len(logs) == 0:
        return
    lag = np.nanmean(logs[:, 1:], axis=1) - logs[:, 0]
    if _stands_out(lag, SLOW_FIRST_ROUND):
        yield (
            "slow first round",
            f"the first round of a launch is {_percent(lag.mean())} slower than its others",
            "raise measure.warmup_steps",
        )


def _drift(logs: Floats) -> Found:
    """A straight line through the rounds of each launch but the first, which has its own warning."""
    changes = np.array([_change(launch) for launch in logs[:, 1:]])
    changes = changes[~np.isnan(changes)]
    if len(changes) == 0:
        return
    direction = np.sign(changes.mean())
    if _stands_out(changes * direction, DRIFT):
        yield (
            "drift",
            f"becomes {_percent(abs(changes.mean()))} {'slower' if direction < 0 else 'faster'} from the "
            "second round of a launch to its last",
            "let the machine cool down or warm up, and measure more launches of fewer rounds",
        )


def _change(launch: Floats) -> float:
    """From the first to the last of these rounds, on a straight line through those that are there."""
    there = np.flatnonzero(~np.isnan(launch))
    if len(there) < 3:
        return math.nan
    places = there - there.mean()
    return float(places @ launch[there] / (places @ places) * (len(launch) - 1))


def _shape(logs: Floats) -> Found:
    """Two kinds of blocks, or one kind that scatters; a launch's first round has its own warning."""
    if np.isfinite(logs[:, 1:]).any():
        logs = logs[:, 1:]
    logs = logs[np.isfinite(logs).any(axis=1)]
    centred = (logs - np.nanmean(logs, axis=1, keepdims=True)).ravel()
    centred = centred[~np.isnan(centred)]
    freedom = len(centred) - len(logs)
    if freedom < 1:
        return
    if len(centred) >= FEWEST_BLOCKS and (apart := cleft(centred)) is not None:
        yield (
            "bimodal",
            f"blocks are of two kinds, {_percent(apart)} apart",
            "look at page_faults and position in the results file: something switches between two states",
        )
    elif (spread := float(np.sqrt((centred**2).sum() / freedom))) > SPREAD:
        yield (
            "wide spread",
            f"blocks of one launch scatter by {_percent(spread)} (standard deviation)",
            "end other work on this machine, or raise measure.block_seconds",
        )


def _launches(logs: Floats) -> Found:
    means = np.nanmean(logs, axis=1)
    if len(means) >= 3 and (spread := float(means.std(ddof=1))) > LAUNCH_SPREAD:
        yield (
            "launches differ",
            f"launches differ by {_percent(spread)} (standard deviation)",
            "measure more launches, or set measure.until",
        )


def _contaminated(blocks: ColumnArrays) -> Found:
    bad = blocks.where(blocks["status"] == "invalid")
    if len(bad):
        last = Contamination.parse(str(bad["message"][-1]))
        yield (
            "contaminated",
            f"{len(bad)} invalid blocks, the last: {last.reason}",
            last.remedy or "set device.threads to what the backend really uses",
        )


def _load(valid: ColumnArrays) -> Found:
    core_seconds = (valid["seconds"] * valid["world_size"] * valid["cores_per_rank"]).sum()
    for column, who, remedy in (
        ("other_cpu_seconds", "other processes", "end other work on this machine"),
        ("stolen_seconds", "the hypervisor", "use a machine whose cores are not shared"),
    ):
        taken = float(np.nansum(valid[column]))  # blank counts as nothing
        if taken > LOAD_SHARE * core_seconds:
            yield ("load", f"{who} had {_percent(taken / core_seconds)} of the ranks' cores", remedy)


def _loader(valid: ColumnArrays) -> Found:
    share = loader_share(valid)
    if share is not None and share > LOADER_SHARE:
        yield (
            "loader",
            f"ranks waited {_percent(share)} of the time for batches, so that speed-ups look smaller",
            "raise data.workers, and give each rank more cores with device.threads where there are any",
        )


def _cpu(valid: ColumnArrays) -> Found:
    hot = int((valid["cpu_throttles"] > 0).sum())
    if hot:
        yield (
            "throttled",
            f"the processor slowed down for heat in {hot} of {len(valid)} blocks",
            "improve the cooling, or limit the clock below that (cpupower frequency-set --max)",
        )
    slow = _slow_clocks(valid["cpu_clock_mhz"])
    if slow:
        yield (
            "clock",
            f"the processor's clock was {CLOCK_DROP:.0%} or more below its median in {slow} of "
            f"{len(valid)} blocks",
            "hold it (cpupower frequency-set --governor performance)",
        )


def _slow_clocks(clocks: Floats) -> int:
    known = clocks[~np.isnan(clocks)]
    return int((known < (1 - CLOCK_DROP) * np.median(known)).sum()) if known.size else 0


def _gpu(valid: ColumnArrays) -> Found:
    cells = valid["gpu_throttled_by"]
    reasons = sorted({word for cell in cells for word in cell.split(", ") if word})
    if reasons:
        yield (
            "throttled",
            f"the GPU held back its clock in {int((cells != '').sum())} of {len(valid)} blocks "
            f"({', '.join(reasons)})",
            "raise the power limit, or lock a clock that it can hold (nvidia-smi --lock-gpu-clocks)"
            if reasons == ["power cap"]
            else "improve the cooling, or lock a clock that it can hold (nvidia-smi --lock-gpu-clocks)",
        )
    slow = _slow_clocks(valid["gpu_clock_mhz"])
    if slow:
        yield (
            "clock",
            f"the GPU's clock was over {CLOCK_DROP:.0%} below its median in {slow} of {len(valid)} blocks",
            "lock the clocks (nvidia-smi --lock-gpu-clocks)",
        )
    before, busy = (_highest(valid[column]) for column in ("device_baseline_mib", "gpu_utilisation_before"))
    if before * 2**20 > BUSY_BYTES or busy > BUSY_PERCENT:
        yield (
            "busy GPU",
            f"somebody else was on the GPU before a launch: {before:,.0f} MiB in use, {busy:.0f} % busy",
            "end other processes there, or choose other devices with CUDA_VISIBLE_DEVICES",
        )
    strange = max(_strange_mib(valid.where(valid["launch"] == number)) for number in set(valid["launch"]))
    if strange > STRANGE_MIB:
        yield (
            "busy GPU",
            f"device memory changed by {strange:,.0f} MiB within a launch, and not by torch",
            "end other processes there, or choose other devices with CUDA_VISIBLE_DEVICES",
        )


def _strange_mib(launch: ColumnArrays) -> float:
    """Change of device memory within a launch that is not torch's."""
    ranges = [
        float(np.nanmax(values) - np.nanmin(values)) if (~np.isnan(values)).any() else 0.0
        for values in (launch["device_peak_mib"], launch["torch_peak_reserved_mib"])
    ]
    return ranges[0] - ranges[1]


def _highest(values: Floats) -> float:
    """0 where nothing is known."""
    return 0.0 if np.isnan(values).all() else float(np.nanmax(values))


def cleft(values: npt.ArrayLike) -> float | None:
    """The distance of two well-separated clusters, each at least a fifth of the values; None if one."""
    values = np.sort(np.asarray(values, float))
    least = max(2, len(values) // 5)
    below = np.arange(least, len(values) - least + 1)  # how many are in the lower cluster, for each cut
    if below.size == 0:
        return None
    low, high = _means_and_variances(values, below), _means_and_variances(values[::-1], len(values) - below)
    apart, width = high[0] - low[0], low[1] + high[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        separation = np.where(apart > 0, math.sqrt(2) * apart / np.sqrt(width), 0.0)
    best = int(np.argmax(separation))
    return float(apart[best]) if separation[best] > CLEFT and apart[best] > CLEFT_DISTANCE else None


def _means_and_variances(values: Floats, counts: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Of the first `counts` of the values."""
    centre = values.mean()
    sums = np.cumsum(values - centre)[counts - 1]
    squares = np.cumsum((values - centre) ** 2)[counts - 1]
    return centre + sums / counts, np.maximum(0, squares - sums**2 / counts) / (counts - 1)


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
