"""Was the machine steady enough? Warnings as values: what was seen, in numbers, and what to do about it.

Everything is read off the rows of one comparison. A warning never changes a figure; what must not count is
`invalid` already (`bench.validity`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from bench import stats
from bench.telemetry.sampler import BUSY_BYTES, BUSY_PERCENT

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

CLOCK_DROP = 0.05
"""A block's clock, of GPU or processor, below the backend's median by more than this share."""

STRANGE_MIB = 500.0
"""Growth of device memory from block to block that is not torch's, above which somebody has joined."""

FEWEST_BLOCKS = 8
"""For statements about the shape of a distribution."""


@dataclass(frozen=True, kw_only=True)
class Warning:
    """One thing that makes a comparison less trustworthy than its interval says."""

    kind: str
    backend: str
    seen: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.backend}: {self.seen}; {self.remedy}"


def warnings(rows: pd.DataFrame) -> list[Warning]:
    """Every warning of one comparison, backend by backend."""
    found: list[Warning] = []
    for backend in rows["backend"].unique():
        blocks = rows[(rows["backend"] == backend) & rows["round"].notna()]
        valid = blocks[blocks["status"] == "ok"]
        if valid.empty:
            continue
        logs = stats.log_throughput(rows, backend)
        checks = (
            _unsettled(valid),
            _slow_first_round(logs),
            _drift(logs),
            _shape(logs),
            _launches(logs),
            _contaminated(blocks),
            _load(valid),
            _cpu(valid),
            _gpu(valid),
        )
        found += [
            Warning(kind=kind, backend=str(backend), seen=seen, remedy=remedy)
            for check in checks
            for kind, seen, remedy in check
        ]
    return found


Found = Iterator[tuple[str, str, str]]


def _unsettled(valid: pd.DataFrame) -> Found:
    launches = valid.drop_duplicates("launch")
    unsettled = int((launches["warm_up_settled"] == 0).sum())
    if unsettled:
        yield (
            "unsettled",
            f"still warming up when the blocks began, in {unsettled} of {len(launches)} launches",
            "raise measure.warmup_steps",
        )


def _slow_first_round(logs: pd.Series) -> Found:
    table = _by_round(logs)
    table = table[np.isfinite(table[:, 0]) & np.isfinite(table[:, 1:]).any(axis=1)]
    if len(table) == 0:
        return
    lag = np.nanmean(table[:, 1:], axis=1) - table[:, 0]
    if _stands_out(lag, SLOW_FIRST_ROUND):
        yield (
            "slow first round",
            f"the first round of a launch is {_percent(lag.mean())} slower than its others",
            "raise measure.warmup_steps",
        )


def _drift(logs: pd.Series) -> Found:
    """A straight line through the rounds of each launch but the first, which has its own warning."""
    changes = np.array([_change(launch) for launch in _by_round(logs)[:, 1:]])
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
    return float(np.polyfit(there, launch[there], 1)[0] * (len(launch) - 1))


def _shape(logs: pd.Series) -> Found:
    """Two kinds of blocks, or one kind that scatters; a launch's first round has its own warning."""
    if (later := logs[logs.index.get_level_values("round") > 1]).size:
        logs = later
    centred = (logs - logs.groupby("launch").transform("mean")).to_numpy(float)
    freedom = len(logs) - logs.index.get_level_values("launch").nunique()
    if freedom < 1:
        return
    if len(logs) >= FEWEST_BLOCKS and (apart := cleft(centred)) is not None:
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


def _launches(logs: pd.Series) -> Found:
    means = logs.groupby("launch").mean()
    if len(means) >= 3 and (spread := float(means.std(ddof=1))) > LAUNCH_SPREAD:
        yield (
            "launches differ",
            f"launches differ by {_percent(spread)} (standard deviation)",
            "measure more launches, or set measure.until",
        )


def _contaminated(blocks: pd.DataFrame) -> Found:
    bad = blocks[blocks["status"] == "invalid"]
    if not bad.empty:
        reason, *remedy = str(bad["message"].iloc[-1]).split("; ")
        yield (
            "contaminated",
            f"the last of {len(bad)} invalid blocks {reason}",
            remedy[0] if remedy else "set device.threads to what the backend really uses",
        )


def _load(valid: pd.DataFrame) -> Found:
    core_seconds = (valid["seconds"] * valid["world_size"] * valid["cores_per_rank"]).sum()
    for column, who, remedy in (
        ("other_cpu_seconds", "other processes", "end other work on this machine"),
        ("stolen_seconds", "the hypervisor", "use a machine whose cores are not shared"),
    ):
        taken = valid[column].sum()  # blank counts as nothing
        if taken > LOAD_SHARE * core_seconds:
            yield ("load", f"{who} had {_percent(taken / core_seconds)} of the ranks' cores", remedy)


def _cpu(valid: pd.DataFrame) -> Found:
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


def _slow_clocks(clocks: pd.Series) -> int:
    known = clocks.dropna()
    return 0 if known.empty else int((known < (1 - CLOCK_DROP) * known.median()).sum())


def _gpu(valid: pd.DataFrame) -> Found:
    cells = valid["gpu_throttled_by"]
    reasons = sorted({word for cell in cells for word in cell.split(", ") if word})
    if reasons:
        yield (
            "throttled",
            f"the GPU held back its clock in {int(cells.ne('').sum())} of {len(valid)} blocks "
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
    before, busy = valid["device_baseline_mib"].max(), valid["gpu_utilisation_before"].max()
    if before * 2**20 > BUSY_BYTES or busy > BUSY_PERCENT:
        yield (
            "busy GPU",
            f"somebody else was on the GPU before a launch: {before:,.0f} MiB in use, {busy:.0f} % busy",
            "end other processes there, or choose other devices with CUDA_VISIBLE_DEVICES",
        )
    memory = valid.groupby("launch")[["device_peak_mib", "torch_peak_reserved_mib"]]
    grown = memory.max() - memory.min()
    strange = (grown["device_peak_mib"] - grown["torch_peak_reserved_mib"].fillna(0)).max()
    if strange > STRANGE_MIB:
        yield (
            "busy GPU",
            f"device memory changed by {strange:,.0f} MiB within a launch, and not by torch",
            "end other processes there, or choose other devices with CUDA_VISIBLE_DEVICES",
        )


def cleft(values: npt.ArrayLike) -> float | None:
    """The distance of two well-separated clusters, each at least a fifth of the values; None if one."""
    values = np.sort(np.asarray(values, float))
    least = max(2, len(values) // 5)
    best: tuple[float, float] | None = None
    for cut in range(least, len(values) - least + 1):
        low, high = values[:cut], values[cut:]
        width = float(low.var(ddof=1) + high.var(ddof=1))
        apart = float(high.mean() - low.mean())
        separation = np.sqrt(2) * apart / np.sqrt(width) if width > 0 else np.inf * apart
        if best is None or separation > best[0]:
            best = (float(separation), apart)
    if best is None or best[0] <= CLEFT or best[1] <= CLEFT_DISTANCE:
        return None
    return best[1]


def _stands_out(effects: Floats, least: float) -> bool:
    """Whether the mean over launches exceeds `least` and, with several launches, its own noise."""
    if len(effects) == 0 or effects.mean() <= least:
        return False
    if len(effects) == 1:
        return True
    error = effects.std(ddof=1) / np.sqrt(len(effects))
    return bool(effects.mean() > STANDARD_ERRORS * error)


def _by_round(logs: pd.Series) -> Floats:
    """Launches as rows, rounds as columns; NaN where a block is missing."""
    return logs.unstack("round").to_numpy(float)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
