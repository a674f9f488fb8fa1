"""Each backend's geometric mean over several comparisons."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.content.collection import ReportedComparison
from bench.results import arithmetic


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
    logs: dict[str, dict[tuple[str, str], list[float]]] = {}  # by backend and workload
    tried: Counter[str] = Counter()
    for comparison in comparisons:
        for summary in comparison.others:
            name = f"{summary.backend} over {comparison.reference}"
            tried[name] += 1
            by_workload = logs.setdefault(name, {})
            if summary.speedup:
                key = (comparison.model, comparison.workload)
                by_workload.setdefault(key, []).append(math.log(summary.speedup.ratio))
    means = []
    for name, workloads in logs.items():
        middles = list(map(arithmetic.mean, workloads.values()))
        ratio = math.exp(arithmetic.mean(middles)) if middles else None
        speedups = sum(map(len, workloads.values()))
        means.append(Mean(backend=name, ratio=ratio, speedups=speedups, tried=tried[name]))
    return means
