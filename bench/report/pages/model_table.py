"""The table with one row for each model, at the top of a machine's page."""

from collections.abc import Callable, Sequence
from functools import partial

from bench.analysis.answer import VERDICTS, Outcome, find_outcome, find_outcome_over_best
from bench.report.content.blocks import Column, Link, Small, Table, Text, table, text_column
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import ModelRow, Setting
from bench.report.words.formatting import MISSING, TIMES, interval, one_line, plural, ratio, short_ratio

FindOutcome = Callable[[ModelRow], Outcome | None]


def model_table(setting: Setting, anchor: str = "") -> Table:
    """The table of one setting; columns that would be empty throughout are left out."""
    backends = setting.backends
    first = backends[0]
    full_path = [_outcome_column(f"{first}, MKL's full path", partial(_with_full_path, first))]
    columns = [
        text_column("model", lambda row: Link(row.name, f"#{row.shown[0].anchor}")),
        *(_outcome_column(name, partial(_over_reference, name)) for name in backends),
        *(_outcome_column(f"{name} over best PyTorch", partial(_over_best, name)) for name in backends),
        *(full_path if any(row.full_path for row in setting.rows) else []),
        Column[ModelRow]("peak memory", partial(_memory, backends)),
        text_column("status", lambda row: _status(row.shown, backends)),
    ]
    return table(setting.rows, columns, label=f"{setting.heading}: a row for each model", anchor=anchor)


def _outcome_column(header: str, find: FindOutcome) -> Column[ModelRow]:
    """Ratio, interval and verdict of a backend; or its status."""

    def look(row: ModelRow) -> str:
        outcome = find(row)
        return outcome.verdict if outcome and outcome.verdict in VERDICTS else ""

    return Column(one_line(header), lambda row: _outcome_text(find(row)), look=look)


def _outcome_text(outcome: Outcome | None) -> Text:
    if outcome is None:
        return MISSING
    if outcome.speedup is None:
        return outcome.verdict
    return [ratio(outcome.speedup.ratio), Small(interval(outcome.speedup)), Small(outcome.verdict)]


def _over_reference(backend: str, row: ModelRow) -> Outcome | None:
    return find_outcome(row.name, row.as_installed, backend) if row.as_installed else None


def _over_best(backend: str, row: ModelRow) -> Outcome | None:
    return find_outcome_over_best(row.name, row.as_installed, backend) if row.as_installed else None


def _with_full_path(backend: str, row: ModelRow) -> Outcome | None:
    return find_outcome(row.name, row.full_path, backend) if row.full_path else None


def _memory(backends: Sequence[str], row: ModelRow) -> str:
    """Each backend's peak memory over the reference's."""
    outcomes = [_over_reference(name, row) for name in backends]
    return " / ".join(
        MISSING if outcome is None or outcome.memory is None else f"{short_ratio(outcome.memory)}{TIMES}"
        for outcome in outcomes
    )


def _status(comparisons: Sequence[ReportedComparison], backends: Sequence[str]) -> str:
    """`ok`, or which backend is not; and how many warnings the comparisons have."""
    wanted = {*backends, *(comparison.reference for comparison in comparisons)}
    failed = [
        f"{one_line(summary.backend)} {summary.status}"
        for comparison in comparisons
        for summary in comparison.summaries
        if summary.backend in wanted and summary.status != "ok"
    ]
    warnings = sum(len(comparison.warnings) for comparison in comparisons)
    status = ", ".join(dict.fromkeys(failed)) or "ok"
    return f"{status}; {plural(warnings, 'warning')}" if warnings else status
