"""One comparison on one screen of the terminal; its page has the rest."""

from rich.table import Table

from bench.config.reference import describe_reference
from bench.report.content.backend_columns import TERMINAL, backend_table, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import backend_notes, group_notes, group_warnings, limited_by
from bench.report.render.terminal import render_table
from bench.report.words import describe
from bench.report.words.formatting import plural

MOST_WARNINGS = 2
"""Warnings that are shown; of the others only the number is."""


def render_terminal(comparison: ReportedComparison) -> Table:
    """The table, and below it what is to be known of it."""
    rows, summaries = comparison.rows, comparison.summaries
    warnings = group_warnings(comparison.warnings)
    parts = describe.workload_parts(rows) | {"task": comparison.model}
    more = len(warnings) - MOST_WARNINGS
    below = [
        describe_reference(comparison.reference, [summary.backend for summary in summaries]),
        *group_notes(backend_notes(summaries)),
        *(f"warning: {warning}" for warning in warnings[:MOST_WARNINGS]),
        f"the page has {plural(more, 'more kind')} of warnings" if more > 0 else "",
        *limited_by(summaries),
        f"{', '.join(filter(None, parts.values()))}; {describe.extent(rows)}",
    ]
    return render_table("", backend_table(TERMINAL, rows_of([comparison])), filter(None, below))
