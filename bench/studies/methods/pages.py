"""methods.md beside a machine's page: what each method saves and costs, with a figure for each model."""

import itertools
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from bench.config.choices import OTHER_UPDATES
from bench.report.content.backend_columns import PEAKS
from bench.report.content.blocks import (
    Block,
    Bold,
    Bullets,
    Column,
    Heading,
    Paragraph,
    Picture,
    table,
    text_column,
    with_code,
)
from bench.report.content.collection import ReportedComparison
from bench.report.content.shardings import name_sharding
from bench.report.content.study_pages import ByMachine, StudyPage, WrittenPage
from bench.report.render.markdown import render_markdown
from bench.report.words import describe
from bench.report.words.formatting import MISSING, TIMES, number, ratio, ratio_and_interval, small
from bench.results.atomic import write_atomically
from bench.statistics.table_values import distinct_text
from bench.studies.methods.effects import BRING_A_LIBRARY, Method, MethodsStudy, find_methods

_WORDS = {
    ("optimizer", "adamw_fused"): "fused AdamW",
    ("optimizer", "adamw_foreach"): "AdamW over lists",
    ("optimizer", "adamw_forloop"): "AdamW tensor by tensor",
    ("optimizer", "adafactor"): "Adafactor (torch)",
    ("optimizer", "adafactor_transformers"): "Adafactor (transformers)",
    ("optimizer", "adamw_8bit_bitsandbytes"): "8-bit AdamW (bitsandbytes)",
    ("optimizer", "adamw_8bit_torchao"): "8-bit AdamW (torchao)",
    ("optimizer", "adamw_4bit_torchao"): "4-bit AdamW (torchao)",
    ("optimizer", "apex_fused_adam"): "fused AdamW (apex)",
    ("engine", "compile"): "torch.compile",
    ("engine", "ortmodule"): "ONNX Runtime",
    ("attention", "sdpa"): "sdpa",
    ("attention", "flash_attention_2"): "FlashAttention 2",
    ("checkpointing", "1"): "checkpointing",
}
"""Choices in the field's words."""


def name_method(method: Method) -> str:
    """What a method changes, in the field's words: `bf16 + checkpointing`."""
    return " + ".join(itertools.starmap(_name_change, method.changes.items())) or method.summary.backend


def _name_change(choice: str, after: str) -> str:
    if choice == "grad_accum":
        return f"accumulation {TIMES} {after}"
    if choice == "precision":
        return after
    if choice == "sharding":
        return name_sharding(after)
    return _WORDS.get((choice, after), f"{choice} {after}")


ABOUT_FIGURE = "Throughput and peak memory over the baseline's. A bar with an arrow goes on beyond the axis."


def figure_stem(comparison: ReportedComparison) -> str:
    """The name of a comparison's figure, without its ending."""
    return f"methods-{comparison.stem}"


def figure_title(comparison: ReportedComparison) -> str:
    """The title of a comparison's figure."""
    return f"{comparison.label}: what each method saves, and what it costs"


def methods_page(comparisons: Sequence[ReportedComparison]) -> list[Block]:
    """The page: for each model the answer, the figure, the table."""
    return [
        Heading("Methods: what each saves, and what it costs", 1),
        Paragraph(
            with_code(
                "Each method is measured alone against plain PyTorch, and in the combinations that people "
                "use (`make methods`)."
            )
        ),
        *(block for comparison in comparisons for block in _section(comparison)),
    ]


def _section(comparison: ReportedComparison) -> list[Block]:
    heading = Heading(comparison.title)
    results = find_methods(comparison)
    if results is None:
        return [heading, Paragraph(f"The baseline {comparison.reference} was not measured.")]
    picture = Picture(Path(f"{figure_stem(comparison)}.svg"), figure_title(comparison), ABOUT_FIGURE)
    notes = [
        *(
            f"{name_method(method)}: {method.summary.message}"
            for method in results.methods
            if method.summary.message and not method.summary.speedup
        ),
        *_notes(results, comparison.peak_column),
        describe.workload(comparison.rows),
        comparison.hardware,
        describe.versions(comparison.rows),
        f"made by: {comparison.command}; commit {distinct_text(comparison.rows, 'git_commit')}; results file "
        f"{comparison.study}/{comparison.stem}.csv",
    ]
    return [
        heading,
        Paragraph(Bold(answer_about_methods(results))),
        *([picture] if results.measured else []),
        table(results.methods, _COLUMNS),
        Bullets(notes),
    ]


def answer_about_methods(results: MethodsStudy) -> str:
    """What pays, in sentences: the fastest and the smallest."""
    measured = results.measured
    if not measured:
        return "No method has a result."
    faster = [method for method in measured if method.summary.verdict == "faster"]
    smaller = [method for method in measured if method.saves_memory]
    both = [method for method in faster if method in smaller]
    sentences = [
        f"Of {len(measured)} methods {len(faster)} train faster than {results.base.backend}, {len(smaller)} "
        f"need less memory, {len(both)} do both."
    ]
    if faster:
        fastest = max(faster, key=_ratio)
        sentences.append(f"The fastest is {name_method(fastest)}: {_speed(fastest)}, {_memory(fastest)}.")
    if smaller:
        smallest = min(smaller, key=lambda method: method.memory_ratio or 1.0)
        sentences.append(f"The smallest is {name_method(smallest)}: {_memory(smallest)}, {_speed(smallest)}.")
    return " ".join(sentences)


def _ratio(method: Method) -> float:
    return method.summary.speedup.ratio if method.summary.speedup else 0.0


def _speed(method: Method) -> str:
    return f"{ratio(_ratio(method))} the speed"


def _memory(method: Method) -> str:
    return f"{method.memory_ratio:.2f}{TIMES} the memory"


_COLUMNS: list[Column[Method]] = [
    text_column("method", lambda method: name_method(method)),
    Column(
        "speed [95 %]",
        lambda method: (
            ratio_and_interval(method.summary.speedup) if method.summary.speedup else method.summary.status
        ),
    ),
    text_column("verdict", lambda method: method.summary.verdict or ""),
    Column(
        "memory",
        lambda method: MISSING if method.memory_ratio is None else f"{method.memory_ratio:.2f}{TIMES}",
    ),
    Column("MiB", lambda method: number(method.summary.peak_mib)),
    Column("state bytes per parameter", lambda method: number(method.state_bytes, 3)),
    Column("loss difference", lambda method: small(method.summary.loss_difference)),
]


def _notes(results: MethodsStudy, peak_column: str) -> list[str]:
    """What the columns mean, and which optimizers train otherwise on purpose."""
    chosen = {after for method in results.methods for after in method.changes.values()}
    others = sorted(chosen & {*OTHER_UPDATES})
    notes = [
        f"the baseline {results.base.backend}: {number(results.base.peak_mib)} MiB, "
        f"{number(results.state_bytes, 3)} state bytes per parameter",
        f"memory: {PEAKS[peak_column]} in the timed steps; within 2 % of the baseline's it counts as "
        "the same, since a peak has no interval",
    ]
    if bringing := [name for name in others if name in BRING_A_LIBRARY]:
        notes.append(
            f"{', '.join(bringing)}: the library that they bring along counts as theirs; with a small model "
            "it may take more than their states save"
        )
    if others:
        listed = "; ".join(f"{name}: {OTHER_UPDATES[name]}" for name in others)
        notes.append(
            "these optimizers make another update than AdamW, so that only the first step's loss and "
            f"gradients must be the baseline's, and the loss difference is theirs: {listed}"
        )
    return notes


def _write(by_machine: ByMachine, out_dir: Path) -> WrittenPage:
    from bench.studies.methods.figure import write_methods_figures  # matplotlib: 1 s

    comparisons = list(chain.from_iterable(by_machine.values()))
    page = out_dir / "methods.md"
    write_atomically(page, render_markdown(methods_page(comparisons)))
    return WrittenPage(files=[page, *write_methods_figures(comparisons, out_dir)])


PAGE = StudyPage(
    about="What each method of training saves, and what it costs", folders=("methods",), write=_write
)
