"""methods.md of a machine: what each method saves and costs."""

from collections.abc import Sequence
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
from bench.report.words import describe
from bench.report.words.formatting import MISSING, TIMES, number, ratio, ratio_and_interval, small
from bench.statistics.table_values import distinct_text
from bench.studies.methods.effects import (
    BRING_A_LIBRARY,
    SAVES,
    ChangedChoice,
    Method,
    MethodsStudy,
    find_methods,
)

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
    return " + ".join(map(_name_change, method.changes)) or method.backend


def _name_change(change: ChangedChoice) -> str:
    if change.choice == "grad_accum":
        return f"accumulation {TIMES} {change.after}"
    if change.choice == "precision":
        return change.after
    if change.choice == "sharding":
        return name_sharding(change.after)
    return _WORDS.get((change.choice, change.after), f"{change.choice} {change.after}")


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
            f"{name_method(method)}: {method.message}"
            for method in results.methods
            if method.message and not method.speedup
        ),
        *_notes(results),
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
    faster = [method for method in measured if method.verdict == "faster"]
    smaller = [method for method in measured if method.effect_on_memory == SAVES]
    both = [method for method in faster if method in smaller]
    sentences = [
        f"Of {len(measured)} methods {len(faster)} train faster than {results.reference}, {len(smaller)} "
        f"need less memory, {len(both)} do both."
    ]
    if faster:
        fastest = max(faster, key=lambda method: method.speedup.ratio if method.speedup else 0.0)
        sentences.append(f"The fastest is {name_method(fastest)}: {_speed(fastest)}, {_memory(fastest)}.")
    if smaller:
        smallest = min(smaller, key=lambda method: method.memory_ratio or 1.0)
        sentences.append(f"The smallest is {name_method(smallest)}: {_memory(smallest)}, {_speed(smallest)}.")
    return " ".join(sentences)


def _speed(method: Method) -> str:
    return f"{ratio(method.speedup.ratio if method.speedup else None)} the speed"


def _memory(method: Method) -> str:
    return f"{method.memory_ratio:.2f}{TIMES} the memory"


_COLUMNS: list[Column[Method]] = [
    text_column("method", lambda method: name_method(method)),
    Column(
        "speed [95 %]", lambda method: ratio_and_interval(method.speedup) if method.speedup else method.status
    ),
    text_column("verdict", lambda method: method.verdict or ""),
    Column(
        "memory",
        lambda method: MISSING if method.memory_ratio is None else f"{method.memory_ratio:.2f}{TIMES}",
    ),
    Column("MiB", lambda method: number(method.memory_mib)),
    Column("state bytes per parameter", lambda method: number(method.state_bytes, 3)),
    Column("loss difference", lambda method: small(method.loss_difference)),
]


def _notes(results: MethodsStudy) -> list[str]:
    """What the columns mean, and which optimizers train otherwise on purpose."""
    chosen = {change.after for method in results.methods for change in method.changes}
    others = sorted(chosen & {*OTHER_UPDATES})
    notes = [
        f"the baseline {results.reference}: {number(results.reference_mib)} MiB, "
        f"{number(results.reference_state_bytes, 3)} state bytes per parameter",
        f"memory: {PEAKS[results.peak_column]} in the timed steps; within 2 % of the baseline's it counts as "
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
