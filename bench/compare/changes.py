"""What has changed between two results files of the same workload on the same hardware, and what is worse."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from bench.compare.differences import changed_choices, refuse_unequal
from bench.compare.kinds import HostSpread
from bench.config.choices import CONF
from bench.report.words.formatting import number
from bench.statistics.backend_blocks import blocks_of
from bench.statistics.intervals import Speedup, speedup_across_runs, verdict
from bench.statistics.summary import BackendSummary, summarise
from bench.statistics.table_values import stopped_by_width

TOLERANCES = CONF / "tolerances.yaml"  # the share of each of `METRICS`

METRICS = ("throughput", "speedup", "memory")  # what may become worse; the file has a share for each


@dataclass(frozen=True, kw_only=True)
class BackendChange:
    """One backend in two files. A ratio is None where a side has no number for it, or is another backend."""

    backend: str
    base: str  # throughput in samples/s, or the status
    new: str  # the same
    ratio: Speedup | None = None  # of throughputs, new over base
    # ratio of the speed-ups over each file's own reference backend, new over base
    speedup_change: Speedup | None = None
    memory_change: Speedup | None = None  # ratio of the peaks of memory, new over base
    verdict: str = ""  # of `ratio`; between hosts of `speedup_change`
    regressions: tuple[str, ...] = ()  # the metrics that became worse beyond their tolerance, or `status`


def compare(
    base: pd.DataFrame, new: pd.DataFrame, tolerances: Mapping[str, float], hosts: HostSpread | None = None
) -> list[BackendChange]:
    """The change of every backend of either file; UserError if their ratios would mean nothing.

    `hosts` says how much hosts of a kind differ, if the files are not of one: only the speed-up is judged
    then.
    """
    refuse_unequal(base, new)
    sides = [{summary.backend: summary for summary in summarise(rows)} for rows in (base, new)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [_change(name, base, new, sides, tolerances, hosts) for name in names]


def _change(
    name: str,
    base: pd.DataFrame,
    new: pd.DataFrame,
    sides: list[dict[str, BackendSummary]],
    tolerances: Mapping[str, float],
    hosts: HostSpread | None,
) -> BackendChange:
    before, after = (side.get(name) for side in sides)
    change = BackendChange(backend=name, base=_throughput(before), new=_throughput(after))
    ran, runs = (side is not None and side.status == "ok" for side in (before, after))
    if not (before and after and ran and runs) or changed_choices(base, new, name):
        # it failed now, or was not measured, which of another host means nothing
        has_failed = ran and not runs and not (hosts and after is None)
        return replace(change, regressions=("status",) if has_failed else ())
    across_runs = partial(speedup_across_runs, stopped_by_width=stopped_by_width(base, new))
    blocks = [blocks_of(rows, name) for rows in (base, new)]
    ratio = across_runs(*(side.log_throughput() for side in blocks))
    # of each launch's highest block: a midmean over blocks would leave out what the table shows
    peaks = [[log.max(keepdims=True) for log in side.by_launch(np.log(side.peaks_mib()))] for side in blocks]
    is_same_memory = blocks[0].peak_column == blocks[1].peak_column  # with pages of files, or without
    memory_change = across_runs(*peaks) if is_same_memory else None
    speedup_change = None  # of the reference, and where the files have different references
    references = {str(rows["reference"].iloc[0]) for rows in (base, new)}
    same_reference = len(references) == 1 and not changed_choices(base, new, *references)
    if before.speedup and after.speedup and same_reference:  # the machine's drift cannot move it
        speedup_change = across_runs(
            *(list(logs.values()) for logs in (before.log_ratios, after.log_ratios)),
            between=(hosts.deviation**2, hosts.freedom) if hosts else (0.0, math.inf),
        )
    judged, metric = (speedup_change, "speedup") if hosts else (ratio, "throughput")
    worse = {
        "throughput": not hosts and _has_fallen(ratio, tolerances["throughput"]),
        "speedup": _has_fallen(speedup_change, tolerances["speedup"]),
        "memory": not hosts and _has_risen(memory_change, tolerances["memory"]),
    }
    return replace(
        change,
        ratio=ratio,
        speedup_change=speedup_change,
        memory_change=memory_change,
        verdict=verdict(judged, tolerances[metric]) if judged else "",
        regressions=tuple(metric for metric in METRICS if worse[metric]),
    )


def _has_fallen(ratio: Speedup | None, tolerance: float) -> bool:
    return ratio is not None and ratio.ratio < 1 - tolerance and ratio.high is not None and ratio.high < 1


def _has_risen(ratio: Speedup | None, tolerance: float) -> bool:
    return ratio is not None and ratio.ratio > 1 + tolerance and ratio.low is not None and ratio.low > 1


def _throughput(side: BackendSummary | None) -> str:
    if side is None:
        return "not measured"
    return number(side.samples_per_s) if side.status == "ok" else side.status
