"""The table with one row for each model, at the top of index.md and index.html."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis.answer import VERDICTS, Outcome, find_outcome, find_outcome_over_best
from bench.report.content.answer_numbers import number
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import ModelRow, Setting
from bench.report.words.formatting import MISSING, TIMES, interval, one_line, plural, ratio


@dataclass(frozen=True, kw_only=True)
class ModelCell:
    """What stands in a cell.

    Attributes:
        text: a ratio, a status, or a dash.
        interval: of the ratio; empty where there is none.
        words: the verdict, or why there is none.
    """

    text: str
    interval: str = ""
    words: str = ""

    @property
    def line(self) -> str:
        """All of it on one line."""
        return " ".join(filter(None, [self.text, self.interval, self.words]))

    @property
    def verdict(self) -> str:
        """The verdict alone, for its colour."""
        return self.words if self.words in VERDICTS else ""


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


MEMORY = "peak memory"

STATUS = "status"
"""The header of the last column."""


def model_table(setting: Setting) -> ModelTable:
    """The table of one setting; columns that would be empty throughout are left out."""
    first = setting.backends[0]
    has_full = any(row.full_path for row in setting.rows)
    headers = [
        *setting.backends,
        *(f"{name} over best PyTorch" for name in setting.backends),
        *([f"{first}, MKL's full path"] if has_full else []),
        MEMORY,
        STATUS,
    ]
    return ModelTable(
        heading=setting.heading,
        headers=[one_line(header) for header in headers],
        rows=[_row(row, setting.backends, has_full=has_full) for row in setting.rows],
    )


def _row(row: ModelRow, backends: Sequence[str], *, has_full: bool) -> ModelTableRow:
    one = row.as_installed
    over_reference = [find_outcome(row.name, one, name) if one else None for name in backends]
    over_best = [find_outcome_over_best(row.name, one, name) if one else None for name in backends]
    full = find_outcome(row.name, row.full_path, backends[0]) if row.full_path else None
    memory = [outcome.memory if outcome else None for outcome in over_reference]
    words = " / ".join(MISSING if value is None else f"{number(value)}{TIMES}" for value in memory)
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
    found = outcome.speedup
    return ModelCell(text=ratio(found.ratio), interval=interval(found), words=outcome.verdict)


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
