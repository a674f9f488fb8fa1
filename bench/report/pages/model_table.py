"""The table with one row for each model, at the top of a machine's page."""

from collections.abc import Callable, Sequence
from functools import partial

from bench.analysis.answer import VERDICTS, Outcome, find_outcome, find_outcome_over_best
from bench.report.content.blocks import Column, Link, Small, Table, Text, table, text_column
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import ModelRow, Setting
from bench.report.words.formatting import MISSING, TIMES, one_line, plural, ratio, short_ratio


def model_table(setting: Setting, anchor: str = "") -> Table:
    """The table of one setting; columns that would be empty throughout are left out."""
    backends = setting.backends
    finders = {name: partial(_outcome, name) for name in backends}
    finders |= {f"{name} over best PyTorch": partial(_outcome, name, over_best=True) for name in backends}
    if any(row.full_path for row in setting.rows):
        finders[f"{backends[0]}, MKL's full path"] = partial(_outcome, backends[0], full_path=True)
    columns = [
        text_column("model", lambda row: Link(row.name, f"#{row.comparisons[0].anchor}")),
        *(_outcome_column(header, find) for header, find in finders.items()),
        Column[ModelRow]("peak memory", partial(_memory, backends)),
        text_column("status", lambda row: _status(row.comparisons, backends)),
    ]
    return table(setting.rows, columns, label=f"{setting.heading}: a row for each model", anchor=anchor)


def _outcome(
    backend: str, row: ModelRow, *, over_best: bool = False, full_path: bool = False
) -> Outcome | None:
    comparison = row.full_path if full_path else row.as_installed
    find = find_outcome_over_best if over_best else find_outcome
    return find(row.name, comparison, backend) if comparison else None


def _outcome_column(header: str, find: Callable[[ModelRow], Outcome | None]) -> Column[ModelRow]:
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
    return [ratio(outcome.speedup.ratio), Small(outcome.speedup.interval), Small(outcome.verdict)]


def _memory(backends: Sequence[str], row: ModelRow) -> str:
    """Each backend's peak memory over the reference's."""
    outcomes = [_outcome(name, row) for name in backends]
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
