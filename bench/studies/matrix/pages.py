"""support.md and support.csv of a machine: which backend trains which model, and why the others do not."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from bench.errors import PASSED
from bench.report.content.backend_columns import IN_SUMMARY, rows_of
from bench.report.content.blocks import (
    Block,
    Bold,
    Bullets,
    Heading,
    Paragraph,
    Text,
    table,
    table_of_texts,
    text_column,
    with_code,
)
from bench.report.content.collection import ReportedComparison
from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.report.render.csv import render_csv
from bench.report.render.markdown import render_markdown
from bench.report.words import describe
from bench.report.words.formatting import MISSING, TIMES, small
from bench.results.atomic import write_atomically
from bench.setup.recipes import STACKS
from bench.statistics.summary import BackendSummary
from bench.statistics.table_values import distinct_text

Reasons = dict[str, int]  # why something does not train, and the number under which the page says it


def support_page(comparisons: Sequence[ReportedComparison]) -> list[Block]:
    """The matrix, then every reason."""
    reasons: Reasons = {}
    by_stack: dict[str, list[ReportedComparison]] = {}
    choices = []
    for comparison in comparisons:
        stack = distinct_text(comparison.rows, "stack")
        if "/" in stack:  # of several: other engines, optimizers and shardings, which are not timed
            choices.append(comparison)
        else:
            by_stack.setdefault(stack, []).append(comparison)
    blocks: list[Block] = [Heading("What trains under which backend", 1)]
    for stack in sorted(by_stack, key=lambda stack: stack == "modern"):
        blocks += [Heading(f"The {stack} stack")] if len(by_stack) > 1 else []
        blocks.append(_table_of_models(by_stack[stack], reasons))
    if by_stack:
        words = (
            "A cell: speed-up over the reference (one short launch, so no more than a first look), and "
            "the largest relative difference of a step's loss from the reference's, with dropout off."
        )
        blocks.append(Paragraph(words))
    blocks += _by_backend(choices, reasons) if choices else []
    blocks += [Heading("Why not"), Bullets(list(reasons), is_numbered=True)] if reasons else []
    return [*blocks, Heading("How it was measured"), Bullets(_how_measured(comparisons))]


def _table_of_models(comparisons: Sequence[ReportedComparison], reasons: Reasons) -> Block:
    summaries = [summary for comparison in comparisons for summary in comparison.summaries]
    summaries.sort(key=lambda summary: (not summary.is_reference, *_place(summary)))
    backends = list(dict.fromkeys(summary.backend for summary in summaries))
    columns = [
        text_column("model", partial(_name, comparisons=comparisons)),
        text_column("task", lambda comparison: distinct_text(comparison.rows, "task")),
        *(text_column(backend, partial(_cell, backend=backend, reasons=reasons)) for backend in backends),
    ]
    return table(comparisons, columns)


def _by_backend(comparisons: Sequence[ReportedComparison], reasons: Reasons) -> list[Block]:
    """A line for each backend, a column for each model: there are more of the former."""
    backends = {summary.backend: summary for comparison in comparisons for summary in comparison.others}
    stacks = list(STACKS)
    order = sorted(backends.values(), key=lambda summary: (stacks.index(summary.stack), *_place(summary)))
    rows = [
        [
            summary.backend,
            _what_runs(summary),
            *(_cell(comparison, summary.backend, reasons) for comparison in comparisons),
        ]
        for summary in order
    ]
    headers = ["backend", "what runs", *(_name(comparison, comparisons) for comparison in comparisons)]
    return [
        Heading("Other engines, optimizers, shardings and stacks"),
        table_of_texts(headers, rows, text_columns=headers),
        Paragraph(
            "One model of each kind; nothing was timed, so that a cell holds the loss difference alone. "
            "On a CPU what is offloaded to the host stays where it is."
        ),
    ]


def _place(summary: BackendSummary) -> tuple[str, str, str]:
    return summary.engine, summary.sharding, summary.backend


def _what_runs(summary: BackendSummary) -> str:
    attention = f", {summary.attention} attention" if summary.attention not in ("", "eager") else ""
    return f"{summary.engine} + {summary.optimizer} + {summary.sharding}{attention}; {summary.stack} stack"


def _name(comparison: ReportedComparison, comparisons: Sequence[ReportedComparison]) -> str:
    """The model's name, or the file's where the model has several."""
    several = sum(other.model == comparison.model for other in comparisons) > 1
    return comparison.stem if several else comparison.model


def _cell(comparison: ReportedComparison, backend: str, reasons: Reasons) -> Text:
    summary = comparison.of(backend)
    if summary is None:
        return MISSING
    if summary.status not in PASSED:
        number = reasons.setdefault(summary.message, len(reasons) + 1)
        return [Bold(summary.status), f" ({number})"]
    if summary.is_reference:
        return "ok"
    speedup = f" {summary.speedup.ratio:.2f}{TIMES}" if summary.speedup else ""
    return f"ok{speedup}, {small(summary.loss_difference)}"


def _how_measured(comparisons: Sequence[ReportedComparison]) -> list[Text]:
    sizes = sorted({distinct_text(comparison.rows, "size") for comparison in comparisons})
    return [
        f"models: {', '.join(sizes)} (bench/config/mini.py shrinks layers, width and vocabulary by one rule "
        "and keeps the architecture); nothing here says what the published size would gain",
        *dict.fromkeys(comparison.hardware for comparison in comparisons),
        *dict.fromkeys(describe.versions(comparison.rows) for comparison in comparisons),
        with_code(
            f"made by `make matrix`; a single model again: `make matrix MODEL={comparisons[0].model}`; "
            "support.csv holds these tables"
        ),
    ]


def _write(by_machine: ByMachine, out_dir: Path) -> WrittenPage:
    comparisons = list(chain.from_iterable(by_machine.values()))
    page, table = out_dir / "support.md", out_dir / "support.csv"
    write_atomically(page, render_markdown(support_page(comparisons)))
    write_atomically(table, render_csv(rows_of(comparisons), IN_SUMMARY))
    return WrittenPage(files=[page, table])


PAGE = StudyPage(about="Which backend trains which model", folders=("matrix",), write=_write)
