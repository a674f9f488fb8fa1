"""Each backend's geometric mean over several comparisons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from bench.report.content.collection import ReportedComparison


@dataclass(frozen=True, kw_only=True)
class Mean:
    """One backend over all comparisons of a panel."""

    backend: str  # its name, and the reference's
    # the geometric mean of its speed-ups, slowdowns included as they are; a workload that was compared
    # several times counts once; None without any
    ratio: float | None
    speedups: int  # how many comparisons have one
    tried: int  # how many comparisons asked for it


def geometric_means(comparisons: Sequence[ReportedComparison]) -> list[Mean]:
    """The mean of each backend over the comparisons with the same reference."""
    logs: dict[str, list[tuple[str, float]]] = {}  # of each backend: workload, and NaN without a speed-up
    for comparison in comparisons:
        for summary in comparison.others:
            log = math.log(summary.speedup.ratio) if summary.speedup else math.nan
            name = f"{summary.backend} over {comparison.reference}"
            logs.setdefault(name, []).append((f"{comparison.model}, {comparison.workload}", log))
    means = []
    for name, pairs in logs.items():
        table = pd.DataFrame(pairs, columns=["workload", "log"])
        known = table.dropna()
        middle = known.groupby("workload")["log"].mean().mean()
        ratio = None if known.empty else math.exp(middle)
        means.append(Mean(backend=name, ratio=ratio, speedups=len(known), tried=len(table)))
    return means
