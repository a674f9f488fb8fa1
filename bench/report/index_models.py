"""The table with one row for each model, at the top of index.md and index.html."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis.answer import VERDICTS, Outcome, find_outcome, find_outcome_over_best
from bench.report.answer_numbers import number
from bench.report.collection import ReportedComparison
from bench.report.formatting import MISSING, TIMES, one_line, plural, ratio_and_interval
from bench.report.model_rows import ModelRow, Setting


@dataclass(frozen=True, kw_only=True)
class ModelCell:
    """What stands in a cell, and the verdict that it shows, if any."""

    text: str
    verdict: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelTableRow:
    """One model: its name, the comparison that its row is made of, and the cells behind the name."""

    name: str
    comparison: ReportedComparison
    cells: Sequence[ModelCell]


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    """The models of one setting.

    Attributes:
        heading: machine and ranks.
        headers: of the cells behind each name; the last is the status, all others hold numbers.
    """

    heading: str
    headers: Sequence[str]
    rows: Sequence[ModelTableRow]


STATUS = "status"
"""The header of the last column."""


def model_table(setting: Setting) -> ModelTable:
    """The table of one setting; columns that would be empty throughout are left out."""
    first = setting.backends[0]
    has_full = any(row.full_path for row in setting.rows)
    headers = [
        *(f"{name} [95 %]" for name in setting.backends),
        *(f"{name} over best PyTorch" for name in setting.backends),
        *([f"{first}, MKL's full path"] if has_full else []),
        f"peak memory of {', '.join(setting.backends)}",
        STATUS,
    ]
    return ModelTable(
        heading=setting.heading,
        headers=[one_line(header) for header in headers],
        rows=[_row(row, setting.backends, has_full=has_full) for row in setting.rows],
    )


def _row(row: ModelRow, backends: Sequence[str], *, has_full: bool) -> ModelTableRow:
    one = row.as_installed
    over_reference = [one and find_outcome(row.name, one, name) for name in backends]
    over_best = [one and find_outcome_over_best(row.name, one, name) for name in backends]
    full = row.full_path and find_outcome(row.name, row.full_path, backends[0])
    memory = [outcome.memory if outcome else None for outcome in over_reference]
    words = ", ".join(MISSING if value is None else f"{number(value)}{TIMES}" for value in memory)
    return ModelTableRow(
        name=row.name,
        comparison=row.shown[0],
        cells=[
            *map(_cell, [*over_reference, *over_best, *([full] if has_full else [])]),
            ModelCell(text=words),
            ModelCell(text=_status(row.shown, backends)),
        ],
    )


def _cell(outcome: Outcome | None) -> ModelCell:
    if outcome is None:
        return ModelCell(text=MISSING)
    if outcome.speedup is None:
        return ModelCell(text=outcome.verdict)
    judged = outcome.verdict if outcome.verdict in VERDICTS else ""
    words = f"{ratio_and_interval(outcome.speedup)} {outcome.verdict}"
    return ModelCell(text=words, verdict=judged)


def _status(shown: Sequence[ReportedComparison], backends: Sequence[str]) -> str:
    """`ok`, or which backend is not; and how many warnings the comparisons have."""
    wanted = {*backends, *(one.reference for one in shown)}
    failed = [
        f"{one_line(summary.backend)} {summary.status}"
        for one in shown
        for summary in one.summaries
        if summary.backend in wanted and summary.status != "ok"
    ]
    warnings = sum(len(one.warnings) for one in shown)
    said = ", ".join(dict.fromkeys(failed)) or "ok"
    return f"{said}; {plural(warnings, 'warning')}" if warnings else said
