"""The section of one comparison: its table, what went wrong, and how it was measured."""

from rich.table import Table

from bench.analysis.steadiness.warnings import SteadinessWarning
from bench.config.backend import describe_reference
from bench.errors import PASSED, plural
from bench.report.content import notes
from bench.report.content.backend_columns import backend_table, rows_of
from bench.report.content.blocks import Block, Bullets, Text
from bench.report.content.collection import ReportedComparison
from bench.report.render import terminal
from bench.report.words import describe
from bench.study import from_parts

LEFT_ALONE = (
    "threads or allocator were left alone: its speed-ups are no results (docs/methodology.md, Fairness)"
)
"""A note on a comparison that does not hold threads and allocator equal, as a fair one does."""


def comparison_blocks(comparison: ReportedComparison) -> list[Block]:
    """The section of a comparison, without its heading."""
    summaries = comparison.summaries
    over = describe_reference(comparison.reference, [summary.backend for summary in summaries])
    lines = [
        *([over] if over else []),
        *(f"{backend}: {note}" for backend, note in notes.backend_notes(summaries)),
        *(f"warning: {warning}" for warning in comparison.warnings),
        *(f"{name}: {words}" for name, words in from_parts("section", "make_notes", comparison)),
        *([LEFT_ALONE] if comparison.uncontrolled else []),
    ]
    return [
        backend_table(rows_of([comparison])),
        *([Bullets(lines)] if lines else []),
        *from_parts("section", "make_blocks", comparison),
        Bullets(_facts(comparison)),
    ]


def _facts(comparison: ReportedComparison) -> list[Text]:
    """Everything that a reader needs to judge or repeat the figures."""
    rows = comparison.rows
    return [
        describe.workload(rows),
        describe.hardware(rows),
        describe.versions(rows),
        *([f"made by: {comparison.command}"] if comparison.command else []),
        f"{describe.extent(rows)}.{describe.stopping_rule(rows)} Peak memory is that of the timed blocks.",
        *from_parts("section", "make_facts", comparison),
        f"results file: {comparison.study}/{comparison.stem}.csv",
    ]


MOST_WARNINGS = 2  # warnings that the terminal shows, of different kinds; of the others only the number is


def render_terminal(comparison: ReportedComparison) -> Table:
    """The table on one screen of a terminal, and the notes below it."""
    rows, summaries = comparison.rows, comparison.summaries
    without_result = {summary.backend for summary in summaries if summary.status not in PASSED}
    first_of_kind: dict[str, SteadinessWarning] = {}
    for warning in comparison.warnings:
        if warning.backend not in without_result:
            first_of_kind.setdefault(warning.kind, warning)
    warnings = list(first_of_kind.values())[:MOST_WARNINGS]
    parts = describe.workload_parts(rows) | {"task": comparison.model}
    more = len(comparison.warnings) - len(warnings)
    below = [
        describe_reference(comparison.reference, [summary.backend for summary in summaries]),
        *notes.group_notes(notes.backend_notes(summaries)),
        *(f"warning: {warning}" for warning in warnings),
        f"the page has {plural(more, 'more warning')}" if more else "",
        f"{', '.join(filter(None, parts.values()))}; {describe.extent(rows)}",
    ]
    return terminal.render_table(backend_table(rows_of([comparison]), in_terminal=True), filter(None, below))
