"""What a comparison's section says besides its table: of the beginning, the target, and what is left."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bench.analysis.beginning import Beginning
from bench.analysis.convergence import BackendConvergence
from bench.report.content import convergence as words
from bench.report.content import definitions
from bench.report.content.collection import ReportedComparison
from bench.report.markdown import T, table_of
from bench.report.words.formatting import MISSING, number, one_line, ratio_and_interval, small

TEXT_COLUMNS = {"backend", "status", "reached in"}
"""All others hold numbers."""


def _number(column: str, digits: int = 4) -> Callable[[dict[Any, Any]], str]:
    return lambda row: number(_known(row[column]), digits)


def _small(column: str) -> Callable[[dict[Any, Any]], str]:
    return lambda row: small(_known(row[column]))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _status(row: dict[Any, Any]) -> str:
    return one_line(": ".join(filter(None, [row["status"], row["message"]])))


def _latency(row: dict[Any, Any]) -> str:
    middle, low, high = (_number(f"inference_{which}ms", 3)(row) for which in ("", "low_", "high_"))
    return f"{middle} [{low}, {high}]"


BEGINNING_COLUMNS: dict[str, Callable[[Beginning], str]] = {
    "backend": lambda one: one_line(one.backend),
    "packages on disk MiB": lambda one: number(one.installed),
    "files to start from MiB": lambda one: number(one.loaded),
    "imports s": lambda one: number(one.imported_s, 3),
    "until the first step is done s": lambda one: number(one.first_step_s, 3),
    "memory before there is a model MiB": lambda one: number(one.runtime),
    "peak memory MiB": lambda one: number(one.peak),
}
TARGET_COLUMNS: dict[str, Callable[[BackendConvergence], str]] = {
    "backend": lambda one: one_line(one.backend),
    "reached in": lambda one: words.reached(one) if one.status == "ok" else one.status,
    "seconds": lambda one: words.at_target(one, one.seconds),
    "seconds with start": lambda one: words.at_target(one, one.with_start),
    "steps": lambda one: words.at_target(one, one.steps),
    "sooner": lambda one: ratio_and_interval(one.sooner),
    "sooner with start": lambda one: ratio_and_interval(one.sooner_with_start),
    "fewer steps": lambda one: ratio_and_interval(one.fewer_steps),
    "final loss": lambda one: words.mean(one.final_loss) if one.status == "ok" else MISSING,
    "difference of final loss": words.final_loss,
}
EXPORT_COLUMNS: dict[str, Callable[[dict[Any, Any]], str]] = {
    "backend": lambda row: one_line(row["backend"]),
    "status": _status,
    "exported MiB": _number("exported_mib"),
    "largest output": _number("output_scale"),
    "difference from PyTorch": _small("difference"),
    "difference from the reference's": _small("difference_from_reference"),
    "inference ms (median, 95 % interval)": _latency,
}
CHECKPOINT_COLUMNS: dict[str, Callable[[dict[Any, Any]], str]] = {
    "backend": lambda row: one_line(row["backend"]),
    "status": _status,
    "on disk MiB": _number("checkpoint_mib"),
    "save s": _number("save_s", 3),
    "load s": _number("load_s", 3),
    "difference after loading": _small("difference"),
}


def sections(comparison: ReportedComparison) -> list[str]:
    """Everything of it that was measured or followed."""
    lines = []
    if found := comparison.convergence:
        goal = f"Held-out loss to reach: {found.target:g}. Margin of final losses: ± {found.margin:g}."
        heading = ["**Time to the target**", "", goal, ""]
        lines += _section(heading, TARGET_COLUMNS, found.backends, definitions.TARGET)
    if comparison.beginnings:
        heading = ["**What each backend takes to begin**", ""]
        lines += _section(heading, BEGINNING_COLUMNS, comparison.beginnings, definitions.BEGINNING)
    if comparison.exported is not None:
        rows = comparison.exported.to_dict("records")
        lines += _section(["**After training**", ""], EXPORT_COLUMNS, rows, definitions.EXPORTED)
    if comparison.checkpoints is not None:
        rows = comparison.checkpoints.to_dict("records")
        lines += _section(["**Checkpoints**", ""], CHECKPOINT_COLUMNS, rows, definitions.CHECKPOINTS)
    return lines


def _section(
    heading: Iterable[str], columns: Mapping[str, Callable[[T], str]], rows: Iterable[T], explanation: str
) -> list[str]:
    return [*heading, *table_of(rows, columns, columns.keys() - TEXT_COLUMNS), explanation, ""]
