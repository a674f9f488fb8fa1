"""Each backend's geometric mean over several comparisons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.content.collection import ReportedComparison
from bench.results import arithmetic
from bench.statistics.summary import BackendSummary


@dataclass(frozen=True, kw_only=True)
class Mean:
    """One backend over all comparisons of a panel.

    Attributes:
        backend: its name, and the reference's.
        ratio: the geometric mean of its speed-ups, slowdowns included as they are; a workload that
            was compared several times counts once. None without any.
        speedups: how many comparisons have one.
        tried: how many comparisons asked for it.
    """

    backend: str
    ratio: float | None
    speedups: int
    tried: int


def geometric_means(comparisons: Sequence[ReportedComparison]) -> list[Mean]:
    """The mean of each backend over the comparisons with the same reference."""
    tried: dict[str, list[tuple[ReportedComparison, BackendSummary]]] = {}
    for comparison in comparisons:
        for summary in comparison.others:
            name = f"{summary.backend} over {comparison.reference}"
            tried.setdefault(name, []).append((comparison, summary))
    return [_mean(name, results) for name, results in tried.items()]


def _mean(backend: str, results: Sequence[tuple[ReportedComparison, BackendSummary]]) -> Mean:
    workloads: dict[tuple[str, str], list[float]] = {}
    for comparison, summary in results:
        if summary.speedup:
            key = (comparison.model, comparison.workload)
            workloads.setdefault(key, []).append(math.log(summary.speedup.ratio))
    middles = [arithmetic.mean(logs) for logs in workloads.values()]
    return Mean(
        backend=backend,
        ratio=math.exp(arithmetic.mean(middles)) if middles else None,
        speedups=sum(map(len, workloads.values())),
        tried=len(results),
    )
