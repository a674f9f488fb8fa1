"""What a comparison says of one backend: over the reference, and over the best PyTorch beside it."""

from dataclasses import dataclass

from bench.analysis.comparison_results import ComparisonResults
from bench.statistics.intervals import Speedup, verdict
from bench.statistics.summary import PYTORCH, BackendSummary, numerics_of

FASTER, SAME, SLOWER, INCONCLUSIVE = "faster", "same", "slower", "inconclusive"

VERDICTS = (FASTER, SAME, SLOWER, INCONCLUSIVE)  # what an interval over launches can say

ONE_LAUNCH = "one launch"
"""In place of a verdict: there is a ratio, but launches differ by more than its interval shows."""

NO_SPEEDUP = "no speed-up"
"""In place of a verdict: the backend ran, but something forbids the comparison; the table says what."""

CHOICES = ("engine", "optimizer", "sharding", "attention", "stack")  # what makes one PyTorch another


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one backend on one model."""

    verdict: str  # of `VERDICTS`; `ONE_LAUNCH`, `NO_SPEEDUP`, or the status of what failed
    speedup: Speedup | None = None  # None where there is no number
    memory: float | None = None  # peak memory over the reference's; None where it is not known

    @property
    def failed(self) -> bool:
        """Whether there is no number at all."""
        return self.verdict not in (*VERDICTS, ONE_LAUNCH)


def find_outcome(results: ComparisonResults, backend: str) -> Outcome | None:
    """A backend's outcome over the reference; None if it was not tried."""
    summary, base = results.of(backend), results.base
    if summary is None or summary.is_reference:
        return None
    return _outcome(summary, summary.speedup, summary.verdict, base)


def find_outcome_over_best(results: ComparisonResults, backend: str) -> Outcome | None:
    """A backend's outcome over the fastest PyTorch; None for that PyTorch, or if it is the only one."""
    summary, best = results.of(backend), results.best_pytorch
    if summary is None or summary.is_best_pytorch or not has_several_pytorch(results):
        return None
    if best is not None and best.is_reference:
        return find_outcome(results, backend)
    margin = float(results.rows["margin"].iloc[0])
    word = verdict(summary.over_best, margin) if summary.over_best else None
    return _outcome(summary, summary.over_best, word, best)


def _outcome(
    summary: BackendSummary, speedup: Speedup | None, word: str | None, base: BackendSummary | None
) -> Outcome:
    """A backend's outcome over `base`; without several launches there is no verdict, nor `inconclusive`."""
    if summary.status != "ok":
        return Outcome(verdict=summary.status)
    if speedup is None:
        return Outcome(verdict=NO_SPEEDUP)
    peak, base_peak = summary.peak_mib, base.peak_mib if base else None
    return Outcome(
        verdict=ONE_LAUNCH if speedup.launches < 2 else word or INCONCLUSIVE,
        speedup=speedup,
        memory=peak / base_peak if peak and base_peak else None,
    )


def has_several_pytorch(results: ComparisonResults) -> bool:
    """Whether the fastest PyTorch is one of several: a single one is not called the best.

    Backends with the same choices count once. Not counted are backends in another library's loop, which is
    timed for itself, and backends with another update or another rounding.
    """
    may_be_best = (
        summary
        for summary in results.summaries
        if summary.engine in PYTORCH and summary.status == "ok" and summary.loop in ("", "bare")
        if numerics_of(summary) == numerics_of(results.summaries[0])
    )
    return len({tuple(getattr(summary, choice) for choice in CHOICES) for summary in may_be_best}) > 1
