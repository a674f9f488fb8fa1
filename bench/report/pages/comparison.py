"""The section of one comparison: its table, what went wrong, and how it was measured."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from bench.analysis.beginning import Beginning
from bench.analysis.convergence import BackendConvergence
from bench.config.reference import describe_reference
from bench.report.content import convergence, definitions
from bench.report.content.backend_columns import PAGE, backend_table, rows_of
from bench.report.content.blocks import Block, Bold, Bullets, Column, Paragraph, Row, Text, columns_of, table
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import backend_notes, false_verdicts, limited_by
from bench.report.render.markdown import render_markdown
from bench.report.words import describe
from bench.report.words.formatting import MISSING, number, one_line, ratio_and_interval, small
from bench.statistics.table_values import distinct_text

TEXT = {"backend", "status", "reached in"}
"""The columns that hold no numbers."""

BEGINNING: list[Column[Beginning]] = columns_of(
    {
        "backend": lambda one: one_line(one.backend),
        "packages on disk MiB": lambda one: number(one.installed),
        "files to start from MiB": lambda one: number(one.loaded),
        "imports s": lambda one: number(one.imported_s, 3),
        "until the first step is done s": lambda one: number(one.first_step_s, 3),
        "memory before there is a model MiB": lambda one: number(one.runtime),
        "peak memory MiB": lambda one: number(one.peak),
    },
    TEXT,
)
TARGET: list[Column[BackendConvergence]] = columns_of(
    {
        "backend": lambda one: one_line(one.backend),
        "reached in": lambda one: convergence.reached(one) if one.status == "ok" else one.status,
        "seconds": lambda one: convergence.at_target(one, one.seconds),
        "seconds with start": lambda one: convergence.at_target(one, one.with_start),
        "steps": lambda one: convergence.at_target(one, one.steps),
        "sooner": lambda one: ratio_and_interval(one.sooner),
        "sooner with start": lambda one: ratio_and_interval(one.sooner_with_start),
        "fewer steps": lambda one: ratio_and_interval(one.fewer_steps),
        "final loss": lambda one: convergence.mean(one.final_loss) if one.status == "ok" else MISSING,
        "difference of final loss": convergence.final_loss,
    },
    TEXT,
)

Record = dict[Any, Any]  # a row of a side file


def _known(row: Record, column: str) -> float | None:
    return None if math.isnan(row[column]) else float(row[column])


def _status(row: Record) -> str:
    return one_line(": ".join(filter(None, [row["status"], row["message"]])))


def _latency(row: Record) -> str:
    middle, low, high = (number(_known(row, f"inference_{end}ms"), 3) for end in ("", "low_", "high_"))
    return f"{middle} [{low}, {high}]"


EXPORTED: list[Column[Record]] = columns_of(
    {
        "backend": lambda row: one_line(row["backend"]),
        "status": _status,
        "exported MiB": lambda row: number(_known(row, "exported_mib")),
        "largest output": lambda row: number(_known(row, "output_scale")),
        "difference from PyTorch": lambda row: small(_known(row, "difference")),
        "difference from the reference's": lambda row: small(_known(row, "difference_from_reference")),
        "inference ms (median, 95 % interval)": _latency,
    },
    TEXT,
)
CHECKPOINTS: list[Column[Record]] = columns_of(
    {
        "backend": lambda row: one_line(row["backend"]),
        "status": _status,
        "on disk MiB": lambda row: number(_known(row, "checkpoint_mib")),
        "save s": lambda row: number(_known(row, "save_s"), 3),
        "load s": lambda row: number(_known(row, "load_s"), 3),
        "difference after loading": lambda row: small(_known(row, "difference")),
    },
    TEXT,
)


def render_comparison(comparison: ReportedComparison) -> str:
    """The section in Markdown, without its heading."""
    return render_markdown(comparison_blocks(comparison))


def comparison_blocks(comparison: ReportedComparison) -> list[Block]:
    """The section without its heading."""
    summaries = comparison.summaries
    over = describe_reference(comparison.reference, [one.backend for one in summaries])
    notes = [
        *([over] if over else []),
        *backend_notes(summaries),
        *(f"warning: {warning}" for warning in comparison.warnings),
        *comparison.explanation,
        *([definitions.LEFT_ALONE] if comparison.uncontrolled else []),
    ]
    return [
        backend_table(PAGE, rows_of([comparison])),
        *([Bullets(items=notes)] if notes else []),
        *_further_tables(comparison),
        Bullets(items=_facts(comparison)),
    ]


def _further_tables(comparison: ReportedComparison) -> list[Block]:
    """What was measured or followed besides speed."""
    blocks: list[Block] = []
    if target := comparison.convergence:
        goal = f"Held-out loss to reach: {target.target:g}. Margin of final losses: ± {target.margin:g}."
        heading = ["Time to the target", goal]
        blocks += _with_explanation(heading, TARGET, target.backends, definitions.TARGET)
    if comparison.beginnings:
        heading = ["What each backend takes to begin"]
        blocks += _with_explanation(heading, BEGINNING, comparison.beginnings, definitions.BEGINNING)
    if comparison.exported is not None:
        records = comparison.exported.to_dict("records")
        blocks += _with_explanation(["After training"], EXPORTED, records, definitions.EXPORTED)
    if comparison.checkpoints is not None:
        records = comparison.checkpoints.to_dict("records")
        blocks += _with_explanation(["Checkpoints"], CHECKPOINTS, records, definitions.CHECKPOINTS)
    return blocks


def _with_explanation(
    heading: Sequence[str], columns: Sequence[Column[Row]], rows: Iterable[Row], explanation: str
) -> list[Block]:
    title, *goal = heading
    return [
        Paragraph(text=Bold(title)),
        *(Paragraph(text=sentence) for sentence in goal),
        table(rows, columns, label=title),
        Paragraph(text=explanation, is_faint=True),
    ]


def _facts(comparison: ReportedComparison) -> list[Text]:
    """Everything that a reader needs to judge or repeat the figures."""
    rows, summaries = comparison.rows, comparison.summaries
    command, products = distinct_text(rows, "command"), describe.products(rows)
    return [
        describe.workload(rows),
        describe.hardware(rows),
        describe.versions(rows),
        *([f"made by: {command}"] if command else []),
        f"{describe.extent(rows)}. {definitions.METHOD}{describe.stopping_rule(rows)} "
        "Peak memory is that of the timed blocks.",
        *false_verdicts(summaries),
        *limited_by(summaries),
        *([products] if products else []),
        f"results file: {comparison.study}/{comparison.stem}.csv",
    ]
