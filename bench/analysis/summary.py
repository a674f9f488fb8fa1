"""One comparison's rows, summarised backend by backend: what a table shows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from bench.analysis.comparability import CHOICES, MAY_DIFFER, MOST_DIFFERENCES, MUST_EQUAL
from bench.analysis.intervals import Floats, Speedup, half_width, midmean, speedup_of_launches, verdict
from bench.machine.environment import OF_A_STACK
from bench.results.arithmetic import mib
from bench.results.column_arrays import ColumnArrays
from bench.results.environment_cell import environment_differences


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
    cells = ColumnArrays(rows)
    reference = str(cells["reference"][0])
    sides = {name: _Side(cells.where(cells["backend"] == name)) for name in dict.fromkeys(cells["backend"])}
    base = sides.pop(reference, None)
    compared = [_compared(mine, base, reference) for mine in sides.values()]
    return compared if base is None else [base.summary, *compared]


def widest_half_width(rows: pd.DataFrame) -> float | None:
    """The largest `half_width` of a comparison's speed-ups; None if it has no speed-up at all."""
    return max((half_width(one.speedup) for one in summarise(rows) if one.speedup), default=None)


class _Side:
    """One backend's rows, those of them that count, and what they say without any other backend."""

    def __init__(self, mine: ColumnArrays) -> None:
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


def _measured(mine: ColumnArrays, valid: ColumnArrays, logs: Sequence[Floats]) -> BackendSummary:
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
    ratio = speedup_of_launches(list(launches.values()), stopped=mine.stopped or base.stopped)
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


def _environments(*tables: ColumnArrays, of_two_stacks: bool) -> list[str]:
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


def _outcome(mine: ColumnArrays) -> tuple[str, str]:
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


def _memory_parts(valid: ColumnArrays) -> MemoryParts | None:
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


def _median_over_launches(valid: ColumnArrays, column: str) -> float | None:
    """A launch's set-up figures stand in each of its rows, so one row per launch is taken."""
    _, first = np.unique(valid["launch"], return_index=True)
    values = valid[column][first]
    values = values[~np.isnan(values)]
    return None if values.size == 0 else float(np.median(values))


def _energy_per_sample_j(valid: ColumnArrays) -> float | None:
    energy = valid["energy_j"]
    if np.isnan(energy).any():
        return None
    return float(energy.sum() / (valid["steps"] * valid["global_batch"]).sum())


def _roofline_share(valid: ColumnArrays) -> float | None:
    shares = valid["roofline_share"]
    if np.isnan(shares).any():
        return None
    return math.exp(np.mean([midmean(launch) for launch in _by_launch(valid["launch"], np.log(shares))]))


def loader_share(blocks: ColumnArrays) -> float | None:
    """Share of a block's seconds that ranks waited for batches, median over the blocks; None: none waited."""
    shares = blocks["loader_s"] / blocks["seconds"]
    shares = shares[~np.isnan(shares)]
    return None if shares.size == 0 else float(np.median(shares))


def _highest(values: Floats) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmax(values))


def _values(values: Iterable[Any]) -> str:
    """The columns of `MUST_EQUAL` hold text and whole numbers, which `ColumnArrays` has as floats."""
    return "/".join(f"{value:.0f}" if isinstance(value, float) else str(value) for value in values)


def _sentences(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
