"""A backend's numbers as the cells of tables: the same words in every table."""

from bench.report.words import formatting
from bench.results.arithmetic import mib
from bench.statistics.summary import BackendSummary

SPEEDUP = "speed-up [95 %]"
OVER_BEST = "over best PyTorch [95 %]"
OF_LIMIT = "of limit"
OPTIMIZER_STATE = "optimizer state MiB/rank"
ENERGY = "energy J/sample"


def what_runs(summary: BackendSummary) -> str:
    """Engine, with options where it has any, optimizer and sharding."""
    options = f" ({summary.engine_options})" if summary.engine_options else ""
    # Only plain AdamW leaves open how it updates.
    way = f" ({summary.optimizer_implementation})" if summary.optimizer == "adamw" else ""
    optimizer = summary.optimizer + (way if summary.optimizer_implementation else "")
    return f"{summary.engine}{options} + {optimizer} + {summary.sharding}"


def speedup(summary: BackendSummary) -> str:
    """The speed-up over the reference with its interval, or the status of what failed."""
    if summary.status != "ok":
        return summary.status
    if summary.speedup is None and summary.is_reference:
        return formatting.ratio(1)
    return formatting.ratio_and_interval(summary.speedup)


def over_best(summary: BackendSummary) -> str:
    """The speed-up over the fastest PyTorch row of the comparison, with its interval."""
    if summary.status != "ok":
        return formatting.MISSING
    return (
        formatting.ratio(1) if summary.is_best_pytorch else formatting.ratio_and_interval(summary.over_best)
    )


def verdict(summary: BackendSummary) -> str:
    """The verdict on the speed-up; for the reference that it is the reference."""
    if summary.is_reference and summary.status == "ok":
        return "reference"
    return summary.verdict or formatting.MISSING


def optimizer_state_mib(summary: BackendSummary) -> float | None:
    """Optimizer state of a rank in MiB."""
    size = summary.optimizer_state_bytes
    return None if size is None else mib(size)
