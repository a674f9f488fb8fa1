"""The section of one comparison: its table, what went wrong, and how it was measured."""

from rich.table import Table

from bench.analysis.convergence import BackendConvergence
from bench.analysis.steadiness.warnings import SteadinessWarning
from bench.config.backend import describe_reference
from bench.errors import PASSED
from bench.report.content import definitions, notes
from bench.report.content.backend_columns import PAGE, TERMINAL, backend_table, rows_of
from bench.report.content.blocks import (
    Block,
    Bullets,
    Column,
    Text,
    explained_table,
    text_column,
)
from bench.report.content.collection import ReportedComparison
from bench.report.render import terminal
from bench.report.words import describe
from bench.report.words.formatting import MISSING, one_line, plural, ratio_and_interval
from bench.statistics.table_values import distinct_text
from bench.study import from_parts

TARGET: list[Column[BackendConvergence]] = [
    text_column("backend", lambda backend: one_line(backend.backend)),
    text_column(
        "reached in", lambda backend: notes.reached(backend) if backend.status == "ok" else backend.status
    ),
    Column("seconds", lambda backend: notes.at_target(backend, backend.seconds)),
    Column("seconds with start", lambda backend: notes.at_target(backend, backend.with_start)),
    Column("steps", lambda backend: notes.at_target(backend, backend.steps)),
    Column("sooner", lambda backend: ratio_and_interval(backend.sooner)),
    Column("sooner with start", lambda backend: ratio_and_interval(backend.sooner_with_start)),
    Column("fewer steps", lambda backend: ratio_and_interval(backend.fewer_steps)),
    Column(
        "final loss", lambda backend: notes.mean(backend.final_loss) if backend.status == "ok" else MISSING
    ),
    Column("difference of final loss", notes.final_loss),
]
ABOUT_TARGET = (
    "Reached: at the first evaluation at which the held-out loss is at or below the target. Seconds: of the "
    "timed blocks until then; with start: set-up, first step and warm-up, too. Means over launches, each of "
    "them a seed, with 95 % intervals. Sooner: the reference's seconds over the backend's in the same "
    "launch, geometric mean over launches; without a number where one of the two did not always come there. "
    "Equivalent: two one-sided t tests at 5 % find the final losses, paired by launch, within the margin; "
    "different: the 95 % interval of the difference excludes 0; open: neither."
)


def comparison_blocks(comparison: ReportedComparison) -> list[Block]:
    """The section of a comparison, without its heading."""
    summaries = comparison.summaries
    over = describe_reference(comparison.reference, [summary.backend for summary in summaries])
    lines = [
        *([over] if over else []),
        *(f"{backend}: {note}" for backend, note in notes.backend_notes(summaries)),
        *(f"warning: {warning}" for warning in comparison.warnings),
        *(f"{name}: {words}" for name, words in from_parts("section", "make_notes", comparison)),
        *([definitions.LEFT_ALONE] if comparison.uncontrolled else []),
    ]
    return [
        backend_table(PAGE, rows_of([comparison])),
        *([Bullets(lines)] if lines else []),
        *_further_tables(comparison),
        Bullets(_facts(comparison)),
    ]


def _further_tables(comparison: ReportedComparison) -> list[Block]:
    blocks: list[Block] = []
    if target := comparison.convergence:
        goal = f"Held-out loss to reach: {target.target:g}. Margin of final losses: ± {target.margin:g}."
        blocks += explained_table("Time to the target", target.backends, TARGET, f"{goal} {ABOUT_TARGET}")
    return blocks + from_parts("section", "make_blocks", comparison)


def _facts(comparison: ReportedComparison) -> list[Text]:
    """Everything that a reader needs to judge or repeat the figures."""
    rows = comparison.rows
    command = distinct_text(rows, "command")
    return [
        describe.workload(rows),
        describe.hardware(rows),
        describe.versions(rows),
        *([f"made by: {command}"] if command else []),
        f"{describe.extent(rows)}.{describe.stopping_rule(rows)} Peak memory is that of the timed blocks.",
        *from_parts("section", "make_facts", comparison),
        f"results file: {comparison.study}/{comparison.stem}.csv",
    ]


MOST_WARNINGS = 2  # warnings that the terminal shows, of different kinds; of the others only the number is


def render_terminal(comparison: ReportedComparison) -> Table:
    """The table on one screen of a terminal, and below it what is to be known of it."""
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
    return terminal.render_table("", backend_table(TERMINAL, rows_of([comparison])), filter(None, below))
