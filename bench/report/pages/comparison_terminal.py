"""One comparison as a table in the terminal."""

from rich.table import Table

from bench.config.reference import describe_reference
from bench.report.content.backend_columns import TERMINAL, backend_table, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import backend_notes, limited_by
from bench.report.render.terminal import render_table
from bench.report.words import describe
from bench.report.words.formatting import share
from bench.statistics.table_values import distinct_text


def render_terminal(comparison: ReportedComparison) -> Table:
    """The table, and below it what is to be known of it."""
    rows, summaries = comparison.rows, comparison.summaries
    over = describe_reference(comparison.reference, [summary.backend for summary in summaries])
    shares = [
        f"{share(summary.roofline_share)} ({summary.backend})"
        for summary in summaries
        if summary.roofline_share is not None
    ]
    below = [
        over,
        *backend_notes(summaries),
        *comparison.explanation,
        *(f"warning: {warning}" for warning in comparison.warnings),
        *(describe.workload(rows), describe.hardware(rows), describe.extent(rows)),
        *limited_by(summaries),
        describe.products(rows),
        f"of the limit measured here: {', '.join(shares)}" if shares else "",
    ]
    return render_table(
        distinct_text(rows, "comparison"), backend_table(TERMINAL, rows_of([comparison])), filter(None, below)
    )
