"""One comparison's rows, summarised backend by backend: what a table shows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from bench.config.choices import OTHER_UPDATES
from bench.results.column_arrays import ColumnArrays
from bench.results.validity import REMEDIES
from bench.statistics.backend_blocks import (
    BackendBlocks,
    MemoryParts,
    at_reference_precision,
    blocks_by_backend,
    divide_peak,
    highest,
)
from bench.statistics.comparability import choices_of, describe_permitted_differences, find_inequalities
from bench.statistics.intervals import Floats, Speedup, half_width, verdict

PYTORCH = ("eager", "compile")  # the engines that are PyTorch itself
LEFT_OUT = "blocks invalid and left out"  # after their number, where enough others are valid


@dataclass(frozen=True, kw_only=True)
class BackendSummary:
    """One line of a table. A figure is None where it is not available or must not be printed.

    `message` explains a status that is not ok, a missing speed-up or blocks that were left out.
    """

    backend: str
    is_reference: bool
    engine: str
    engine_options: str
    optimizer: str
    optimizer_implementation: str  # of torch's AdamW; empty if unknown
    sharding: str
    attention: str
    stack: str
    precision: str
    checkpointing: str  # 1: activations are computed again in the backward pass; empty if unknown, as below
    grad_accum: str
    loop: str
    loader: str
    slowed_by: str  # share of its time that every step waits on purpose
    status: str
    message: str = ""
    micro_batch: int | None = None  # of the valid blocks
    samples_per_s: float | None = None
    speedup: Speedup | None = None  # None for the reference itself
    no_speedup: str = ""  # why there is no speed-up although its blocks are valid
    verdict: str | None = None
    # over the comparison's best PyTorch; None for that, and if it is the reference
    over_best: Speedup | None = None
    is_best_pytorch: bool = False
    peak_mib: float | None = None  # of memory, as `find_peak_column` says; highest rank or device, and block
    memory_parts: MemoryParts | None = None  # of the peak
    setup_s: float | None = None
    first_step_s: float | None = None
    break_even_steps: int | None = None
    loss_difference: float | None = None
    optimizer_state_bytes: int | None = None  # of the rank that holds most
    energy_per_sample_j: float | None = None  # of all devices, over all blocks
    roofline_share: float | None = None  # of the limit; averaged as samples_per_s is
    # of the rounds over the reference, by launch
    log_ratios: Mapping[int, Floats] = field(default_factory=dict, compare=False)


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
    same_precision = at_reference_precision(cells)
    sides = {
        name: (blocks, _summarise_alone(blocks, same_precision))
        for name, blocks in blocks_by_backend(cells).items()
    }
    base = sides.pop(reference, None)
    others = [(side[0], _with_speedup(*side, base, reference)) for side in sides.values()]
    return _compare_with_best_pytorch(others if base is None else [base, *others])


def widest_half_width(rows: pd.DataFrame) -> float | None:
    """The largest `half_width` of a comparison's speed-ups; None if it has no speed-up at all."""
    speedups = [summary.speedup for summary in summarise(rows) if summary.speedup]
    return max(map(half_width, speedups), default=None)


def _summarise_alone(blocks: BackendBlocks, same_precision: ColumnArrays) -> BackendSummary:
    """A backend's figures without others' speed; `same_precision`: all rows at the reference's precision."""
    valid = blocks.valid
    status, message = _judge_status(blocks.rows)
    first = valid if len(valid) else blocks.rows
    names = {column: first[column][0] for column in ("backend", "optimizer_implementation")}
    names |= choices_of(first)
    names |= {"is_reference": names["backend"] == first["reference"][0], "status": status, "message": message}
    if status == "untimed":
        return BackendSummary(**names, loss_difference=highest(blocks.rows["loss_difference"]))
    if status != "ok":
        return BackendSummary(**names)
    state = highest(valid["optimizer_state_bytes"])
    # Older files have the limit of the reference's precision beside every other one, too.
    of_another = valid["precision"][0] not in same_precision["precision"] and bool(
        np.isin(valid["limit_flops_per_s"], same_precision["limit_flops_per_s"]).any()
    )
    return BackendSummary(
        **names,
        micro_batch=int(valid["micro_batch"][0]),
        samples_per_s=blocks.samples_per_s(),
        peak_mib=highest(blocks.peaks_mib()),
        memory_parts=divide_peak(blocks),
        setup_s=blocks.median_over_launches("setup_s"),
        first_step_s=blocks.median_over_launches("first_step_s"),
        loss_difference=highest(valid["loss_difference"]),
        optimizer_state_bytes=None if state is None else int(state),
        energy_per_sample_j=blocks.energy_per_sample_j(),
        roofline_share=None if of_another else blocks.roofline_share(),
    )


def _judge_status(rows: ColumnArrays) -> tuple[str, str]:
    """A backend's status and message.

    A failed launch voids the backend: the message is that of the latest one; of a `skipped` one only if no
    other failed, since it follows from another failure. Contaminated blocks are merely left out, unless
    more than a third of the rounds have no other.
    """
    status = rows["status"]
    contaminated = (status == "invalid") & ~np.isnan(rows["round"])
    failed = rows.where((status != "ok") & ~contaminated)
    if len(failed):
        causes = failed.where(failed["status"] != "skipped")
        shown = causes if len(causes) else failed
        last = np.argsort(shown["launch"], kind="stable")[-1]
        return str(shown["status"][last]), str(shown["message"][last])
    bad, blocks = int(contaminated.sum()), len(rows)
    if bad == 0:
        return "ok", str(rows["message"][-1])
    left_out = f"{bad} of {blocks} {LEFT_OUT}"
    rounds = set(zip(rows["launch"], rows["round"], strict=True))
    valid = rows.where(status == "ok")
    without = rounds - set(zip(valid["launch"], valid["round"], strict=True))
    if 3 * len(without) > len(rounds):
        cause = rows["invalid_because"][contaminated][-1]
        return "invalid", f"{left_out} ({cause}); {REMEDIES[cause]}"
    return "ok", _join_sentences(left_out, str(valid["message"][-1]))


def _with_speedup(
    blocks: BackendBlocks,
    summary: BackendSummary,
    base: tuple[BackendBlocks, BackendSummary] | None,
    reference: str,
) -> BackendSummary:
    if summary.status != "ok":
        return summary
    if base is None:
        return _without_speedup(summary, f"the reference {reference} was not measured")
    base_blocks, base_summary = base
    if base_summary.status != "ok":
        return _without_speedup(summary, f"the reference {reference} is {base_summary.status}")
    if inequalities := find_inequalities(blocks.valid, base_blocks.valid):
        return _without_speedup(summary, ", ".join(inequalities))
    if summary.loss_difference is None:
        return _without_speedup(summary, "its losses were never compared with the reference's")
    speedup = blocks.speedup_over(base_blocks)
    if speedup is None:
        return _without_speedup(summary, f"no round in which {reference} is valid too")
    slowed = float(blocks.valid["slowed_by"][0])
    on_purpose = [f"slowed on purpose by {slowed:.0%}"] if slowed else []
    on_purpose += describe_permitted_differences(blocks.valid, base_blocks.valid)
    word = verdict(speedup, float(blocks.valid["margin"][0]))
    return replace(
        summary,
        speedup=speedup,
        verdict=word,
        log_ratios=blocks.log_ratios(base_blocks),
        message=_join_sentences(*on_purpose, summary.message, speedup.note),
        break_even_steps=(
            _break_even_steps(summary, base_summary, speedup, float(base_blocks.valid["global_batch"][0]))
            if word == "faster"
            else None
        ),
    )


def _compare_with_best_pytorch(backends: list[tuple[BackendBlocks, BackendSummary]]) -> list[BackendSummary]:
    """Mark the fastest PyTorch row, and add the speed-ups over it unless that is the reference anyway.

    The measured rate chooses the row: among equally fast rows, chance decides. Rows that round differently or
    make another update than the first backend, the reference, do other work and do not count.
    """
    pytorch = [
        (blocks, summary)
        for blocks, summary in backends
        if summary.engine in PYTORCH
        and _is_checked(summary)
        and not blocks.valid["slowed_by"].any()
        and numerics_of(summary) == numerics_of(backends[0][1])
    ]
    best_blocks, best = max(pytorch, key=lambda pair: pair[1].samples_per_s or 0.0, default=(None, None))
    compared = []
    for blocks, summary in backends:
        if summary is best:
            compared.append(replace(summary, is_best_pytorch=True))
        elif (
            best_blocks
            and best
            and not best.is_reference
            and _is_checked(summary)
            and not find_inequalities(blocks.valid, best_blocks.valid)
        ):
            compared.append(replace(summary, over_best=blocks.speedup_over(best_blocks)))
        else:
            compared.append(summary)
    return compared


def _is_checked(summary: BackendSummary) -> bool:
    return summary.status == "ok" and (summary.is_reference or summary.loss_difference is not None)


def numerics_of(summary: BackendSummary) -> tuple[str, str]:
    """The choices that change a backend's results beyond fp32 rounding: kind of update and precision."""
    return summary.optimizer if summary.optimizer in OTHER_UPDATES else "", summary.precision


def _without_speedup(summary: BackendSummary, reason: str) -> BackendSummary:
    message = _join_sentences(f"no speed-up: {reason}", summary.message)
    return replace(summary, no_speedup=reason, message=message)


def _break_even_steps(
    summary: BackendSummary, base: BackendSummary, speedup: Speedup, base_global_batch: float
) -> int | None:
    """Steps after which a longer set-up and first step have paid off; 0 if they are not longer."""
    starts = (summary.setup_s, summary.first_step_s, base.setup_s, base.first_step_s)
    if None in starts or base.samples_per_s is None:
        return None
    setup, first_step, base_setup, base_first_step = starts
    extra = (setup + first_step) - (base_setup + base_first_step)  # type: ignore[operator]
    step_seconds = base_global_batch / base.samples_per_s
    saved = step_seconds * (1 - 1 / speedup.ratio)
    return math.ceil(extra / saved) if extra > 0 else 0


def _join_sentences(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
