"""From rows to figures: pure functions, and the only place of the project that divides.

`results` calls the first few while it makes rows; everything below them starts from the rows of
one results file, a DataFrame as `results.read` returns it.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtrit  # scipy.stats holds the same quantile and takes 1 s to import

from bench.machine.environment import OF_A_STACK, differences
from bench.results.cells import Cells

Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", float, Floats)

CONFIDENCE = 0.95

STOPPED_CONFIDENCE = 0.98
"""For the quantile of a comparison that ended because its interval was narrow. Stopped with the 95 % one,
intervals cover 89 to 93 % of the truths; with this one 95 to 98 % (bench.selfcheck.coverage)."""

SINGLE_LAUNCH = "single launch: the variation between launches is not in the interval"
SINGLE_ROUND = "one round: no interval"

MUST_EQUAL = (
    "model",
    "size",
    "parameters",
    "trainable_parameters",
    "task",
    "data",
    "lengths",
    "batch_rule",
    "global_batch",
    "seq_len",
    "precision",
    "checkpointing",
    "memory_limit_gib",
    "device",
    "nodes",
    "world_size",
    "threads_per_rank",
    "cores_per_rank",
    "allocator",
)
"""Columns in which a backend must equal the reference before a speed-up may be printed.

The environment must be equal, too, but for what another stack brings; it is said in what it differs.
"""

CHOICES = ("engine", "optimizer", "sharding", "attention", "stack")
"""Columns that say what a backend is."""

MAY_DIFFER = ("attention", "stack")
"""Columns in which a backend may differ from the reference; that is said beside the speed-up."""

MOST_DIFFERENCES = 4
"""Entries of the environment that are named where a speed-up is refused because of them."""


# Counts, seconds and bytes of one block


def samples_per_s(steps: Number, global_batch: Number, seconds: Number) -> Number:
    """Throughput of a block over all ranks; `seconds` are those of its slowest rank."""
    return steps * global_batch / seconds


def rate(amount: Number, seconds: Number) -> Number:
    """`amount` per second."""
    return amount / seconds


def model_flops(counted: Sequence[tuple[int, int]], micro_batch: int) -> int:
    """FLOPs of a micro-batch from those of two others: a part grows with the samples, a part does not.

    Exact, since either part is a whole number.
    """
    (few, flops), (many, more) = counted
    return flops + (micro_batch - few) * ((more - flops) // (many - few))


def block_seconds(seconds_per_rank: Iterable[float]) -> float:
    """Seconds of a block or a phase: those of the slowest rank, for which the others wait."""
    return max(seconds_per_rank)


def step_milliseconds(seconds: Floats, steps: Floats) -> Floats:
    """Milliseconds per optimizer step of each block."""
    return 1000 * seconds / steps


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of at least one value."""
    return sum(values) / len(values)


def ratio(value: Number, base: Number) -> Number:
    """`value` over `base`."""
    return value / base


def slowed_speedup(slowed_by: float) -> float:
    """The speed-up, below 1, of what takes `slowed_by` (a share) longer."""
    return 1 / (1 + slowed_by)


def mib(size_bytes: float) -> float:
    """Bytes as MiB (2**20)."""
    return size_bytes / 2**20


# Ratios and their intervals


@dataclass(frozen=True, kw_only=True)
class Speedup:
    """A ratio of throughputs (above 1: faster) with its 95 % interval.

    `low` and `high` are None where no interval can be had; `note` then says why, and it also
    says what an interval leaves out. Across two files `launches` counts the side that has fewer.
    """

    ratio: float
    low: float | None
    high: float | None
    launches: int
    rounds: int
    note: str = ""


def speedup(log_ratios: pd.Series, *, stopped: bool = False) -> Speedup | None:
    """Summarise log ratios of samples/s, indexed by (launch, round), one per round; None without any."""
    return estimate(_launches(log_ratios), stopped=stopped) if len(log_ratios) else None


def estimate(
    launches: Sequence[Floats],
    *,
    stopped: bool = False,
    middle: Callable[[Floats], float] | None = None,
) -> Speedup:
    """Summarise the log ratios of each launch, an array for each; at least one, none of them empty.

    The ratio is the geometric mean over launches of each launch's `midmean`. Launches are the
    independent sample, blocks within one are not, so the 95 % interval is Student's t over the
    launches' midmeans with launches - 1 degrees of freedom. One launch alone gets a t-interval over
    its rounds, and says so; one round gets none.

    Args:
        launches: log ratios of samples/s, an array of shape (rounds,) per launch.
        stopped: whether `measure.until` chose the number of launches. To look until the interval is
            narrow favours samples that scatter too little, so it gets a larger quantile.
        middle: of a launch, instead of `midmean`; for the simulation that chose it.
    """
    middles = np.array([(middle or midmean)(launch) for launch in launches])
    rounds = sum(map(len, launches))
    several = len(middles) > 1
    sample = middles if several else launches[0]
    half = None
    if len(sample) > 1:
        half = _t(len(sample) - 1, stopped) * math.sqrt(_squared_error(sample))
    note = "" if several else SINGLE_ROUND if half is None else SINGLE_LAUNCH
    return _speedup(float(middles.mean()), half, len(middles), rounds, note)


def midmean(values: Floats) -> float:
    """The interquartile mean: of the sorted values a quarter is left out at either end.

    Where a quarter is no whole number, the value at the edge counts in part: the outer of 5 weigh
    0, 0.75, 1, 0.75, 0. Chosen by simulation on recorded rounds (reports/selftest.md, "Estimators"):
    rounds of a shared machine have outliers, which the plain mean pays for with wider intervals.
    """
    inner = np.arange(1, len(values) + 1) - len(values) / 4
    weights = np.clip(np.minimum(inner, inner[::-1]), 0, 1)
    return float(np.average(np.sort(values), weights=weights))


def across_runs(base: pd.Series, new: pd.Series, *, stopped: bool = False) -> Speedup | None:
    """Ratio of `new` over `base`, two series of logs from files that were not measured together.

    Welch's interval over the launches' midmeans of either side: nothing is paired. A side with one
    launch has no variance to offer, so there is no interval. None if either side is empty. `stopped`: whether
    `measure.until` chose the number of launches of either side, as in `estimate`.
    Source: B. L. Welch, Biometrika 34 (1947), 28-35.
    """
    if base.empty or new.empty:
        return None
    sides = [launch_middles(base), launch_middles(new)]
    found = combine([(-1.0, sides[0]), (1.0, sides[1])], stopped)
    note = "" if found.low is not None else "single launch on one side: no interval across runs"
    return replace(found, rounds=min(len(base), len(new)), note=note)


def combine(samples: Sequence[tuple[float, Floats]], stopped: bool = False) -> Speedup:
    """The weighted sum of the means of independent samples of logs, as a ratio with its 95 % interval.

    Welch and Satterthwaite's degrees of freedom, as in `across_runs`. A sample of one value has no variance
    to offer, so there is no interval.
    Source: F. E. Satterthwaite, Biometrics Bulletin 2 (1946), 110-114.

    Args:
        samples: a weight and the values, an array of shape (launches,), for each.
        stopped: as in `estimate`.
    """
    centre = sum(weight * float(values.mean()) for weight, values in samples)
    fewest = min(len(values) for _, values in samples)
    total_rounds = sum(len(values) for _, values in samples)
    if fewest < 2:
        return _speedup(centre, None, fewest, total_rounds, "single launch on one side: no interval")
    errors = [weight**2 * _squared_error(values) for weight, values in samples]
    total = sum(errors)
    if total == 0:
        return _speedup(centre, 0.0, fewest, total_rounds)
    freedom = total**2 / sum(e**2 / (len(v) - 1) for e, (_, v) in zip(errors, samples, strict=True))
    return _speedup(centre, _t(freedom, stopped) * math.sqrt(total), fewest, total_rounds)


def verdict(speedup: Speedup, margin: float) -> str:
    """`same`, `faster`, `slower` or `inconclusive`; `margin` is a share, such as 0.02."""
    if speedup.low is None or speedup.high is None:
        return "inconclusive"
    if 1 - margin <= speedup.low and speedup.high <= 1 + margin:
        return "same"
    if speedup.low > 1:
        return "faster"
    if speedup.high < 1:
        return "slower"
    return "inconclusive"


def _speedup(centre: float, half: float | None, launches: int, rounds: int, note: str = "") -> Speedup:
    low = high = None
    if half is not None:
        with np.errstate(over="ignore"):  # two far launches: an infinite end is the truth
            low, high = float(np.exp(centre - half)), float(np.exp(centre + half))
    return Speedup(ratio=math.exp(centre), low=low, high=high, launches=launches, rounds=rounds, note=note)


def _t(freedom: float, stopped: bool) -> float:
    confidence = STOPPED_CONFIDENCE if stopped else CONFIDENCE
    return float(stdtrit(freedom, (1 + confidence) / 2))


def _squared_error(sample: Floats) -> float:
    """Squared standard error of the sample's mean."""
    return float(sample.var(ddof=1)) / len(sample)


def launch_middles(logs: pd.Series) -> Floats:
    """The midmean of each launch of a series indexed by (launch, round), in the order of the launches."""
    return np.array([midmean(launch) for launch in _launches(logs)])


def _launches(logs: pd.Series) -> list[Floats]:
    """The values of each launch, in the order of the launches."""
    numbers = logs.index.get_level_values("launch").to_numpy()
    values = logs.to_numpy(float)
    return [values[numbers == number] for number in np.unique(numbers)]


def half_width(speedup: Speedup) -> float:
    """Half of the interval's width, as a share: 0.01 for ± 1 %.

    Infinite without an interval that contains the variation between launches.
    """
    if not speedup.low or speedup.high is None or speedup.launches < 2:
        return math.inf
    return math.sqrt(speedup.high / speedup.low) - 1


# The rows of one comparison


def log_throughput(rows: pd.DataFrame, backend: str) -> pd.Series:
    """Log of samples/s of a backend's valid blocks, indexed by (launch, round)."""
    mine = ((rows["backend"] == backend) & (rows["status"] == "ok")).to_numpy()
    index = pd.MultiIndex.from_arrays([rows["launch"][mine], rows["round"][mine]], names=["launch", "round"])
    values = np.log(rows["samples_per_s"].to_numpy(float)[mine])
    return pd.Series(values, index=index, name="samples_per_s")


def log_ratios(rows: pd.DataFrame, backend: str, reference: str) -> pd.Series:
    """Log ratio of samples/s in each round where both sides are valid, by (launch, round)."""
    return (log_throughput(rows, backend) - log_throughput(rows, reference)).dropna()


def stopped(*tables: pd.DataFrame) -> bool:
    """Whether `measure.until` chose the number of launches of any of these comparisons."""
    return any(bool(rows["until"].notna().any()) for rows in tables)


@dataclass(frozen=True, kw_only=True)
class MemoryParts:
    """A peak, divided; MiB of the rank or device that has most.

    The peak and `runtime` are measured, the next three are predicted (bench.results.prediction), and `rest`
    is what remains: activations, buffers, fragments, and the libraries where `runtime` is None. On a host
    some of the libraries' pages may be paged out again, so `rest` is a difference, no measurement.
    """

    runtime: float | None
    weights: float
    gradients: float
    optimizer: float
    rest: float


@dataclass(frozen=True, kw_only=True)
class BackendSummary:
    """One line of a table. A figure is None where it cannot be had or must not be printed.

    `message` explains a status that is not ok, a missing speed-up or blocks that were left out.
    """

    backend: str
    is_reference: bool
    engine: str
    optimizer: str
    sharding: str
    attention: str
    stack: str
    status: str
    message: str = ""
    micro_batch: int | None = None  # of the valid blocks
    samples_per_s: float | None = None
    speedup: Speedup | None = None  # None for the reference itself
    verdict: str | None = None
    host_peak_mib: float | None = None  # highest rank and block
    device_peak_mib: float | None = None  # highest device and block
    memory_parts: MemoryParts | None = None  # of the peak: the device's where there is one
    torch_peak_allocated_mib: float | None = None
    torch_peak_reserved_mib: float | None = None
    setup_s: float | None = None
    first_step_s: float | None = None
    break_even_steps: int | None = None
    loss_difference: float | None = None
    optimizer_state_bytes: int | None = None  # of the rank that holds most
    energy_per_sample_j: float | None = None  # of all devices, over all blocks
    loader_share: float | None = None  # of a block's seconds, waited for batches; median over blocks
    roofline_share: float | None = None  # of the devices' matrix-product rate; averaged as samples_per_s is
    log_ratios: Mapping[int, tuple[float, ...]] = field(default_factory=dict)  # of the rounds, by launch


def summarise(rows: pd.DataFrame) -> list[BackendSummary]:
    """Summarise one comparison: the reference first, the others in order of appearance.

    Throughput is the geometric mean over launches of each launch's midmean; the speed-up, whose
    midmean is over ratios, need not be exactly the ratio of two of them. Peaks are the highest of
    all blocks; set-up and first step are medians over launches. Only valid blocks count.
    """
    if rows.empty:
        return []
    cells = Cells(rows)
    reference = str(cells["reference"][0])
    sides = {name: _Side(cells.where(cells["backend"] == name)) for name in dict.fromkeys(cells["backend"])}
    base = sides.pop(reference, None)
    compared = [_compared(mine, base, reference) for mine in sides.values()]
    return compared if base is None else [base.summary, *compared]


def widest(rows: pd.DataFrame) -> float | None:
    """The largest `half_width` of a comparison's speed-ups; None if it has no speed-up at all."""
    return max((half_width(one.speedup) for one in summarise(rows) if one.speedup), default=None)


class _Side:
    """One backend's rows, those of them that count, and what they say without any other backend."""

    def __init__(self, mine: Cells) -> None:
        self.valid = mine.where(mine["status"] == "ok")
        self.logs = np.log(self.valid["samples_per_s"])
        self.launch = self.valid["launch"]
        self.summary = _measured(mine, self.valid, _by_launch(self.launch, self.logs))

    @property
    def stopped(self) -> bool:
        return not np.isnan(self.valid["until"]).all()

    def over(self, base: "_Side") -> dict[int, Floats]:
        """Log ratios of the rounds in which both are valid, an array for each launch."""
        mine, other = (side.launch * _ROUNDS + side.valid["round"] for side in (self, base))
        _, ours, theirs = np.intersect1d(mine, other, assume_unique=True, return_indices=True)
        launch = self.launch[ours]
        logs = _by_launch(launch, self.logs[ours] - base.logs[theirs])
        return dict(zip(np.unique(launch).astype(int).tolist(), logs, strict=True))


_ROUNDS = 2.0**26
"""More than a launch has rounds, and few enough that launch and round fit into one float."""


def _by_launch(launch: Floats, values: Floats) -> list[Floats]:
    return [values[launch == number] for number in np.unique(launch)]


def _measured(mine: Cells, valid: Cells, logs: Sequence[Floats]) -> BackendSummary:
    status, message = _outcome(mine)
    first = valid if len(valid) else mine
    names = {column: first[column][0] for column in ("backend", *CHOICES)}
    names |= {"is_reference": names["backend"] == first["reference"][0], "status": status, "message": message}
    if status == "untimed":
        return BackendSummary(**names, loss_difference=_highest(mine["loss_difference"]))
    if status != "ok":
        return BackendSummary(**names)
    state = _highest(valid["optimizer_state_bytes"])
    return BackendSummary(
        **names,
        micro_batch=int(valid["micro_batch"][0]),
        samples_per_s=math.exp(np.mean([midmean(launch) for launch in logs])),
        host_peak_mib=_highest(valid["host_peak_mib"]),
        device_peak_mib=_highest(valid["device_peak_mib"]),
        memory_parts=_memory_parts(valid),
        torch_peak_allocated_mib=_highest(valid["torch_peak_allocated_mib"]),
        torch_peak_reserved_mib=_highest(valid["torch_peak_reserved_mib"]),
        setup_s=_median_over_launches(valid, "setup_s"),
        first_step_s=_median_over_launches(valid, "first_step_s"),
        loss_difference=_highest(valid["loss_difference"]),
        optimizer_state_bytes=None if state is None else int(state),
        energy_per_sample_j=_energy_per_sample_j(valid),
        loader_share=loader_share(valid),
        roofline_share=_roofline_share(valid),
    )


def _compared(mine: _Side, base: _Side | None, reference: str) -> BackendSummary:
    """Add the speed-up over the reference, or the reason why there is none."""
    summary = mine.summary
    if summary.status != "ok":
        return summary
    reason = _obstacle(mine, base, reference) or _unproven(summary)
    launches = mine.over(base) if base is not None and not reason else {}
    if base is None or not launches:
        reason = reason or f"no round in which {reference} is valid too"
        return replace(summary, message=_sentences(f"no speed-up: {reason}", summary.message))
    ratio = estimate(list(launches.values()), stopped=mine.stopped or base.stopped)
    slowed = float(mine.valid["slowed_by"][0])
    on_purpose = [f"slowed on purpose by {slowed:.0%}"] if slowed else []
    for column in MAY_DIFFER:
        ours, theirs = mine.valid[column][0], base.valid[column][0]
        if ours != theirs:
            on_purpose.append(f"{column} {ours} (reference {theirs})")
    word = verdict(ratio, float(mine.valid["margin"][0]))
    return replace(
        summary,
        speedup=ratio,
        verdict=word,
        log_ratios={number: tuple(logs.tolist()) for number, logs in launches.items()},
        message=_sentences(*on_purpose, summary.message, ratio.note),
        break_even_steps=_break_even_steps(summary, base, ratio) if word == "faster" else None,
    )


def _obstacle(mine: _Side, base: _Side | None, reference: str) -> str:
    """Why this backend's blocks and the reference's give no speed-up; empty if they do."""
    if base is None:
        return f"the reference {reference} was not measured"
    if base.summary.status != "ok":
        return f"the reference {reference} is {base.summary.status}"
    own_batch = mine.valid.distinct("batch_rule") == ["max"]
    columns = [column for column in MUST_EQUAL if not (own_batch and column == "global_batch")]
    values = {column: (mine.valid.distinct(column), base.valid.distinct(column)) for column in columns}
    unequal = [
        f"{column} {_values(ours)} (reference {_values(theirs)})"
        for column, (ours, theirs) in values.items()
        if len({*ours, *theirs}) > 1
    ]
    for column in MAY_DIFFER:
        for cells in (mine.valid, base.valid):
            if (cells[column] != cells[column][0]).any():
                unequal.append(f"{column} {_values(cells.distinct(column))} of one backend")
    of_two_stacks = mine.valid["stack"][0] != base.valid["stack"][0]
    return ", ".join([*unequal, *_environments(base.valid, mine.valid, of_two_stacks=of_two_stacks)])


def _unproven(mine: BackendSummary) -> str:
    return "its losses were never compared with the reference's" if mine.loss_difference is None else ""


def _environments(*tables: Cells, of_two_stacks: bool) -> list[str]:
    """What differs between the environments of these blocks, if they have several; the first few entries.

    If the tables are of two stacks, what another stack brings does not count.
    """
    found: dict[str, str] = {}
    for blocks in tables:
        for key, text in zip(blocks["environment_hash"], blocks["environment"], strict=True):
            found.setdefault(key, text)
    first, *others = found.values()
    if not others:
        return []
    differences = dict.fromkeys(line for other in others for line in environment_differences(first, other))
    if of_two_stacks and differences:
        differences = {line: None for line in differences if not line.startswith(OF_A_STACK)}
        if not differences:
            return []
    shown = list(differences)[:MOST_DIFFERENCES] or ["environment_hash"]
    more = len(differences) - len(shown)
    return [f"measured in different environments: {', '.join(shown)}" + (f", and {more} more" * (more > 0))]


def environment_differences(one: str, other: str) -> list[str]:
    """The entries in which two cells of the column `environment` differ; none if one is damaged."""
    try:
        return differences(json.loads(one), json.loads(other))
    except ValueError:
        return []


def _break_even_steps(mine: BackendSummary, side: _Side, ratio: Speedup) -> int | None:
    """Steps after which the extra set-up and first step are paid for; 0 if there is no extra."""
    base = side.summary
    starts = (mine.setup_s, mine.first_step_s, base.setup_s, base.first_step_s)
    if None in starts or base.samples_per_s is None:
        return None
    setup, first_step, base_setup, base_first_step = starts
    extra = (setup + first_step) - (base_setup + base_first_step)  # type: ignore[operator]
    step_seconds = float(side.valid["global_batch"][0]) / base.samples_per_s
    saved = step_seconds * (1 - 1 / ratio.ratio)
    return math.ceil(extra / saved) if extra > 0 else 0


def _outcome(mine: Cells) -> tuple[str, str]:
    """A backend's status and message.

    A failed launch voids the backend: the latest one speaks, but `skipped` only if nothing else
    does, since it follows from another failure. Contaminated blocks are merely left out, unless
    more than a third of the rounds have no other.
    """
    status = mine["status"]
    contaminated = (status == "invalid") & ~np.isnan(mine["round"])
    failed = mine.where((status != "ok") & ~contaminated)
    if len(failed):
        causes = failed.where(failed["status"] != "skipped")
        told = causes if len(causes) else failed
        last = np.argsort(told["launch"], kind="stable")[-1]
        return str(told["status"][last]), str(told["message"][last])
    bad, blocks = int(contaminated.sum()), len(mine)
    if bad == 0:
        return "ok", ""
    left_out = f"{bad} of {blocks} blocks invalid and left out"
    rounds = set(zip(mine["launch"], mine["round"], strict=True))
    valid = mine.where(status == "ok")
    without = rounds - set(zip(valid["launch"], valid["round"], strict=True))
    if 3 * len(without) > len(rounds):
        return "invalid", f"{left_out}; the last one: {mine['message'][contaminated][-1]}"
    return "ok", left_out


def _memory_parts(valid: Cells) -> MemoryParts | None:
    """The highest peak in parts; None if it or the parameters are unknown, or if it is below their sum."""
    on_cpu = valid["device"][0] == "cpu"
    peak = _highest(valid["host_peak_mib" if on_cpu else "device_peak_mib"])
    predicted = [_highest(valid[f"predicted_{part}_bytes"]) for part in ("weights", "gradients", "optimizer")]
    known = [mib(size) for size in predicted if size is not None]
    if peak is None or len(known) < len(predicted):
        return None
    runtime = _highest(valid["host_runtime_mib"]) if on_cpu else None
    rest = peak - sum(known) - (runtime or 0.0)
    if rest < 0:
        return None
    weights, gradients, optimizer = known
    return MemoryParts(runtime=runtime, weights=weights, gradients=gradients, optimizer=optimizer, rest=rest)


def _median_over_launches(valid: Cells, column: str) -> float | None:
    """A launch's set-up figures stand in each of its rows, so one row per launch is taken."""
    _, first = np.unique(valid["launch"], return_index=True)
    values = valid[column][first]
    values = values[~np.isnan(values)]
    return None if values.size == 0 else float(np.median(values))


def _energy_per_sample_j(valid: Cells) -> float | None:
    energy = valid["energy_j"]
    if np.isnan(energy).any():
        return None
    return float(energy.sum() / (valid["steps"] * valid["global_batch"]).sum())


def _roofline_share(valid: Cells) -> float | None:
    shares = valid["roofline_share"]
    if np.isnan(shares).any():
        return None
    return math.exp(np.mean([midmean(launch) for launch in _by_launch(valid["launch"], np.log(shares))]))


def loader_share(blocks: Cells) -> float | None:
    """Share of a block's seconds that ranks waited for batches, median over the blocks; None: none waited."""
    shares = blocks["loader_s"] / blocks["seconds"]
    shares = shares[~np.isnan(shares)]
    return None if shares.size == 0 else float(np.median(shares))


def _highest(values: Floats) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmax(values))


def _values(values: Iterable[Any]) -> str:
    """The columns of `MUST_EQUAL` hold text and whole numbers, which `Cells` has as floats."""
    return "/".join(f"{value:.0f}" if isinstance(value, float) else str(value) for value in values)


def _sentences(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
