"""The section of one comparison: its table, what went wrong, and how it was measured."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from bench.analysis.beginning import Beginning
from bench.analysis.convergence import BackendConvergence
from bench.config.reference import describe_reference
from bench.report.content import convergence, definitions
from bench.report.content.backend_columns import PAGE, backend_table, rows_of
from bench.report.content.blocks import (
    Block,
    Bold,
    Bullets,
    Column,
    Folded,
    Paragraph,
    Row,
    Text,
    table,
    text_column,
)
from bench.report.content.collection import ReportedComparison
from bench.report.content.notes import backend_notes, false_verdicts, limited_by
from bench.report.render.markdown import render_markdown
from bench.report.words import describe
from bench.report.words.formatting import MISSING, number, one_line, ratio, ratio_and_interval, small
from bench.statistics.table_values import distinct_text

BEGINNING: list[Column[Beginning]] = [
    text_column("backend", lambda backend: one_line(backend.backend)),
    Column("packages on disk MiB", lambda backend: number(backend.installed)),
    Column("files to start from MiB", lambda backend: number(backend.loaded)),
    Column("imports s", lambda backend: number(backend.imported_s, 3)),
    Column("until the first step is done s", lambda backend: number(backend.first_step_s, 3)),
    Column("memory before there is a model MiB", lambda backend: number(backend.runtime)),
    Column("peak memory MiB", lambda backend: number(backend.peak)),
]
TARGET: list[Column[BackendConvergence]] = [
    text_column("backend", lambda backend: one_line(backend.backend)),
    text_column(
        "reached in",
        lambda backend: convergence.reached(backend) if backend.status == "ok" else backend.status,
    ),
    Column("seconds", lambda backend: convergence.at_target(backend, backend.seconds)),
    Column("seconds with start", lambda backend: convergence.at_target(backend, backend.with_start)),
    Column("steps", lambda backend: convergence.at_target(backend, backend.steps)),
    Column("sooner", lambda backend: ratio_and_interval(backend.sooner)),
    Column("sooner with start", lambda backend: ratio_and_interval(backend.sooner_with_start)),
    Column("fewer steps", lambda backend: ratio_and_interval(backend.fewer_steps)),
    Column(
        "final loss",
        lambda backend: convergence.mean(backend.final_loss) if backend.status == "ok" else MISSING,
    ),
    Column("difference of final loss", convergence.final_loss),
]

Record = dict[Any, Any]  # a row of a side file


def _known(row: Record, column: str) -> float | None:
    return None if math.isnan(row[column]) else float(row[column])


def _status(row: Record) -> str:
    return one_line(": ".join(filter(None, [row["status"], row["message"]])))


def _latency(row: Record) -> str:
    middle, low, high = (number(_known(row, f"inference_{end}ms"), 3) for end in ("", "low_", "high_"))
    return f"{middle} [{low}, {high}]"


EXPORTED: list[Column[Record]] = [
    text_column("backend", lambda row: one_line(row["backend"])),
    text_column("status", _status),
    Column("exported MiB", lambda row: number(_known(row, "exported_mib"))),
    Column("largest output", lambda row: number(_known(row, "output_scale"))),
    Column("difference from PyTorch", lambda row: small(_known(row, "difference"))),
    Column("difference from the reference's", lambda row: small(_known(row, "difference_from_reference"))),
    Column("inference ms (median, 95 % interval)", _latency),
]
CHECKPOINTS: list[Column[Record]] = [
    text_column("backend", lambda row: one_line(row["backend"])),
    text_column("status", _status),
    Column("on disk MiB", lambda row: number(_known(row, "checkpoint_mib"))),
    Column("save s", lambda row: number(_known(row, "save_s"), 3)),
    Column("load s", lambda row: number(_known(row, "load_s"), 3)),
    Column("difference after loading", lambda row: small(_known(row, "difference"))),
]


def render_comparison(comparison: ReportedComparison) -> str:
    """The section in Markdown, without its heading."""
    return render_markdown(comparison_blocks(comparison))


def comparison_blocks(comparison: ReportedComparison) -> list[Block]:
    """The section without its heading."""
    summaries = comparison.summaries
    over = describe_reference(comparison.reference, [summary.backend for summary in summaries])
    notes = [
        *([over] if over else []),
        *(f"{backend}: {note}" for backend, note in backend_notes(summaries)),
        *(f"warning: {warning}" for warning in comparison.warnings),
        *comparison.explanation,
        *([definitions.LEFT_ALONE] if comparison.uncontrolled else []),
    ]
    return [
        backend_table(PAGE, rows_of([comparison])),
        *([Bullets(notes)] if notes else []),
        *_further_tables(comparison),
        Bullets(_facts(comparison)),
        *(Folded(one.title, comparison_blocks(one), anchor=one.anchor) for one in comparison.seeds),
    ]


def _further_tables(comparison: ReportedComparison) -> list[Block]:
    """What was measured or followed besides speed."""
    blocks: list[Block] = []
    if target := comparison.convergence:
        goal = f"Held-out loss to reach: {target.target:g}. Margin of final losses: ± {target.margin:g}."
        blocks += _with_explanation("Time to the target", TARGET, target.backends, definitions.TARGET, goal)
    if comparison.beginnings:
        title = "What each backend takes to begin"
        blocks += _with_explanation(title, BEGINNING, comparison.beginnings, definitions.BEGINNING)
    if comparison.exported is not None:
        records = comparison.exported.to_dict("records")
        blocks += _with_explanation("After training", EXPORTED, records, definitions.EXPORTED)
    if comparison.checkpoints is not None:
        records = comparison.checkpoints.to_dict("records")
        blocks += _with_explanation("Checkpoints", CHECKPOINTS, records, definitions.CHECKPOINTS)
    return blocks


def _with_explanation(
    title: str, columns: Sequence[Column[Row]], rows: Iterable[Row], explanation: str, goal: str = ""
) -> list[Block]:
    return [
        Paragraph(Bold(title)),
        *([Paragraph(goal)] if goal else []),
        table(rows, columns, label=title),
        Paragraph(explanation, is_faint=True),
    ]


def _ranges_over_seeds(seeds: Sequence[ReportedComparison]) -> list[str]:
    """Between which speed-ups the seeds lie, a line for each backend."""
    ratios: dict[str, list[float]] = {}
    for one in seeds:
        for other in one.others:
            if other.speedup:
                ratios.setdefault(other.backend, []).append(other.speedup.ratio)
    return [
        f"speed-up of {one_line(backend)} seed by seed: {ratio(min(several))} to {ratio(max(several))}"
        for backend, several in ratios.items()
    ]


def _facts(comparison: ReportedComparison) -> list[Text]:
    """Everything that a reader needs to judge or repeat the figures."""
    rows, summaries = comparison.rows, comparison.summaries
    command, products = distinct_text(rows, "command"), describe.products(rows)
    seeds = comparison.seeds
    extent = f"{describe.extent(rows)}. {definitions.METHOD}"
    if seeds:
        numbers = distinct_text(rows, "seed").replace("/", ", ")
        extent = f"{len(seeds)} seeds: {numbers}. {definitions.SEEDS}"
    return [
        describe.workload(rows),
        describe.hardware(rows),
        describe.versions(rows),
        *([f"made by: {command}"] if command else []),
        f"{extent}{describe.stopping_rule(rows)} Peak memory is that of the timed blocks.",
        *false_verdicts(summaries),
        *limited_by(summaries),
        *([products] if products else []),
        *_ranges_over_seeds(seeds),
        *(f"results file: {one.study}/{one.stem}.csv" for one in seeds or [comparison]),
    ]
