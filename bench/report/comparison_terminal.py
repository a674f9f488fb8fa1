"""One comparison as a table in the terminal."""

from textwrap import fill
from typing import Literal

from rich import box
from rich.table import Table
from rich.text import Text

from bench.analysis.table_values import distinct_text
from bench.config.reference import describe_reference
from bench.report.comparison_columns import (
    FIRST_STEP,
    SETUP,
    TEXT_COLUMNS,
    VERDICT,
    WHAT_RUNS,
    backend_notes,
    columns_of,
    limited_by,
    with_limit,
)
from bench.report.content import summary_cells
from bench.report.content.collection import ReportedComparison
from bench.report.words import describe
from bench.report.words.formatting import interval, one_line, ratio, share
from bench.statistics.summary import BackendSummary

TERMINAL_WIDTH = 100

_ONLY_ON_THE_PAGE = (
    *(WHAT_RUNS, VERDICT, SETUP, FIRST_STEP),
    *(summary_cells.OF_LIMIT, summary_cells.OPTIMIZER_STATE, summary_cells.ENERGY),
)


def render_terminal(comparison: ReportedComparison) -> Table:
    """The table, at most `TERMINAL_WIDTH` columns wide: the verdict stands with its speed-up."""
    rows, summaries = comparison.rows, comparison.summaries
    columns = columns_of(rows, summaries) | {summary_cells.SPEEDUP: _speedup_and_verdict}
    if summary_cells.OVER_BEST in columns:
        columns[summary_cells.OVER_BEST] = _over_best
    for name in _ONLY_ON_THE_PAGE:
        columns.pop(name, None)
    table = Table(
        title=Text(one_line(distinct_text(rows, "comparison"))),
        caption=Text("\n".join(map(one_line, _caption(comparison))), justify="left"),
        box=box.HORIZONTALS,
        padding=0,
        width=TERMINAL_WIDTH,
    )
    for name in columns:
        header = fill(name.replace("difference", "diff."), 8, break_long_words=False)
        justify: Literal["left", "right"] = "left" if name in TEXT_COLUMNS else "right"
        # only names give way where space is short: a broken number reads as another one
        table.add_column(header, justify=justify, overflow="fold", no_wrap=name != "backend")
    for summary in summaries:
        table.add_row(*(Text(cell(summary)) for cell in columns.values()))
    return table


def _caption(comparison: ReportedComparison) -> list[str]:
    """The lines below the table."""
    rows, summaries = comparison.rows, comparison.summaries
    over = describe_reference(comparison.reference, [one.backend for one in summaries])
    lines = [*([over] if over else []), *(f"{backend}: {note}" for backend, note in backend_notes(summaries))]
    lines += comparison.explanation
    lines += [f"warning: {warning}" for warning in comparison.warnings]
    lines += [describe.workload(rows), describe.hardware(rows), describe.extent(rows), *limited_by(summaries)]
    shares = [f"{share(one.roofline_share)} ({one.backend})" for one in with_limit(summaries)]
    products = describe.products(rows)
    return [
        *lines,
        *([products] if products else []),
        *([f"of the limit measured here: {', '.join(shares)}"] if shares else []),
    ]


def _over_best(one: BackendSummary) -> str:
    if not one.over_best:
        return summary_cells.over_best(one)
    return f"{ratio(one.over_best.ratio)}\n{interval(one.over_best)}"


def _speedup_and_verdict(one: BackendSummary) -> str:
    if not one.speedup:
        return summary_cells.speedup(one)
    return f"{ratio(one.speedup.ratio)} {one.verdict}\n{interval(one.speedup)}"
