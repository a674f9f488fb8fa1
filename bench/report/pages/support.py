"""support.md of a machine: which backend trains which model, and why the others do not."""

from collections.abc import Sequence
from functools import partial

from bench.errors import PASSED
from bench.report.content.blocks import (
    Block,
    Bold,
    Bullets,
    Code,
    Heading,
    Paragraph,
    Text,
    table,
    table_of_texts,
    text_column,
    with_code,
)
from bench.report.content.collection import ReportedComparison
from bench.report.pages.support_matrix import is_of_choices
from bench.report.words import describe
from bench.report.words.formatting import MISSING, TIMES, small
from bench.setup.recipes import STACKS
from bench.statistics.summary import BackendSummary
from bench.statistics.table_values import distinct_text

Reasons = dict[str, int]
"""Why something does not train, and the number under which the page says it."""


def support_page(comparisons: Sequence[ReportedComparison]) -> list[Block]:
    """The matrix at a glance, then every reason."""
    reasons: Reasons = {}
    timed = [comparison for comparison in comparisons if not is_of_choices(comparison)]
    choices = [comparison for comparison in comparisons if is_of_choices(comparison)]
    blocks: list[Block] = [
        Heading("What trains under which backend", 1),
        Bullets(_at_a_glance(comparisons)),
        *_by_model(timed, reasons),
        *(_by_backend(choices, reasons) if choices else []),
    ]
    if reasons:
        blocks += [Heading("Why not"), Bullets(list(reasons), is_numbered=True)]
    return [*blocks, Heading("How it was measured"), Bullets(_how_measured(comparisons))]


def _at_a_glance(comparisons: Sequence[ReportedComparison]) -> list[Text]:
    """For each engine of each stack how many models it trains, and which it does not."""
    tried: dict[tuple[str, str], dict[str, bool]] = {}
    for comparison in comparisons:
        for summary in comparison.summaries:
            models = tried.setdefault((summary.engine, summary.stack), {})
            models[comparison.model] = models.get(comparison.model, False) or summary.status in PASSED
    several = len({stack for _, stack in tried}) > 1
    lines: list[Text] = []
    for (engine, stack), models in tried.items():
        words = f" of the {stack} stack" if several else ""
        words += f" trains {sum(models.values())} of {len(models)} models"
        words += " from the reference's weights" if several else ""
        others = ", ".join(model for model, trains in models.items() if not trains)
        lines.append([Bold(engine), words + (f"; not, for the reasons below: {others}" if others else "")])
    return lines


def _by_model(comparisons: Sequence[ReportedComparison], reasons: Reasons) -> list[Block]:
    """A table for each stack: a line for each model, a column for each backend."""
    by_stack: dict[str, list[ReportedComparison]] = {}
    for comparison in comparisons:
        by_stack.setdefault(distinct_text(comparison.rows, "stack"), []).append(comparison)
    blocks: list[Block] = []
    for stack in sorted(by_stack, key=lambda stack: stack == "modern"):
        blocks += [Heading(f"The {stack} stack")] if len(by_stack) > 1 else []
        blocks.append(_table_of_models(by_stack[stack], reasons))
    if blocks:
        words = (
            "A cell: speed-up over the reference (one short launch, so no more than a first look), and "
            "the largest relative difference of a step's loss from the reference's, with dropout off."
        )
        blocks.append(Paragraph(words))
    return blocks


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
    commands = [
        *with_code("made by `make matrix`; a single model again: "),
        Code(f"make matrix MODEL={comparisons[0].model}"),
        "; the study matrix holds all comparisons, and support.csv these tables",
    ]
    return [
        f"models: {', '.join(sizes)} (bench/config/mini.py shrinks layers, width and vocabulary by one rule "
        "and keeps the architecture); nothing here says what the published size would gain",
        *dict.fromkeys(comparison.hardware for comparison in comparisons),
        *dict.fromkeys(describe.versions(comparison.rows) for comparison in comparisons),
        commands,
    ]
