"""methods.md of a machine: what each method saves and costs, and what transformers' guide says of it."""

from collections.abc import Sequence

from bench.analysis.methods import (
    AGREES,
    BRING_A_LIBRARY,
    DISAGREES,
    SAVES,
    Change,
    Method,
    MethodsFound,
    find_methods,
)
from bench.analysis.reference import read_guide
from bench.analysis.table_values import distinct_text
from bench.config.choices import OTHER_UPDATES
from bench.report import describe
from bench.report.collection import ReportedComparison
from bench.report.formatting import MISSING, TIMES, number, ratio, ratio_and_interval, small
from bench.report.markdown import table
from bench.report.render.markdown import escaped

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
    ("sharding", "zero1"): "ZeRO-1",
    ("sharding", "zero2_offload"): "ZeRO-2, offloaded",
}
"""A choice, as the field calls it."""


def name_method(method: Method) -> str:
    """What it changes, in the field's words: `bf16 + checkpointing`."""
    return " + ".join(map(_name_change, method.changes)) or method.backend


def _name_change(change: Change) -> str:
    if change.choice == "grad_accum":
        return f"accumulation {TIMES} {change.after}"
    if change.choice == "precision":
        return change.after
    return _WORDS.get((change.choice, change.after), f"{change.choice} {change.after}")


def figure_stem(one: ReportedComparison) -> str:
    """The name of a comparison's figure, without its ending."""
    return f"methods-{one.stem}"


def figure_title(one: ReportedComparison) -> str:
    """The title of a comparison's figure."""
    return f"{one.label}: what each method saves, and what it costs"


CAPTION = (
    "Speed: throughput over the baseline's. Memory: peak of the timed steps. Red line and bold names: no "
    "other method is faster and smaller at the same time."
)


def render_methods(comparisons: Sequence[ReportedComparison]) -> str:
    """The page in Markdown: for each model the answer, the figure, the table."""
    lines = [
        "# Methods: what each saves, and what it costs",
        "",
        "Transformers' guide to training on a single GPU lists methods with a yes or no for speed and for "
        "memory. Here each is measured alone against plain PyTorch, and in the combinations that people use "
        "(`make methods`).",
        "",
    ]
    return "\n".join([*lines, *(line for one in comparisons for line in _section(one))])


def _section(one: ReportedComparison) -> list[str]:
    found = find_methods(one)
    lines = [f"## {escaped(one.title)}", ""]
    if found is None:
        return [*lines, f"The baseline {escaped(one.reference)} was not measured.", ""]
    lines.append(f"**{escaped(answer(found))}**")
    if found.measured:
        name = figure_stem(one)
        lines += ["", f"![{escaped(figure_title(one))}]({name}.svg)", ""]
    return [
        *lines,
        *_table(found),
        *(
            f"- {escaped(name_method(method))}: {escaped(method.message)}"
            for method in found.methods
            if method.message and not method.speedup
        ),
        *_notes(found),
        f"- {escaped(describe.workload(one.rows))}",
        f"- {escaped(one.hardware)}",
        f"- {escaped(describe.versions(one.rows))}",
        f"- made by: {escaped(one.command)}; commit {escaped(distinct_text(one.rows, 'git_commit'))}; "
        f"results file {escaped(one.study)}/{escaped(one.stem)}.csv",
        "",
    ]


def answer(found: MethodsFound) -> str:
    """What pays, in sentences: the fastest, the smallest, and what the guide says otherwise."""
    measured = found.measured
    if not measured:
        return "No method has a result."
    faster = [one for one in measured if one.verdict == "faster"]
    smaller = [one for one in measured if one.effect_on_memory == SAVES]
    both = [one for one in faster if one in smaller]
    sentences = [
        f"Of {len(measured)} methods {len(faster)} train faster than {found.reference}, {len(smaller)} need "
        f"less memory, {len(both)} do both."
    ]
    if faster:
        fastest = max(faster, key=lambda one: one.speedup.ratio if one.speedup else 0.0)
        sentences.append(f"The fastest is {name_method(fastest)}: {_speed(fastest)}, {_memory(fastest)}.")
    if smaller:
        smallest = min(smaller, key=lambda one: one.memory_ratio or 1.0)
        sentences.append(f"The smallest is {name_method(smallest)}: {_memory(smallest)}, {_speed(smallest)}.")
    wrong = [
        f"{name_method(one)} ({what})"
        for one in found.methods
        for what, agreement in (("speed", one.speed_as_guided), ("memory", one.memory_as_guided))
        if agreement == DISAGREES
    ]
    right = sum(
        agreement == AGREES
        for one in found.methods
        for agreement in (one.speed_as_guided, one.memory_as_guided)
    )
    if right or wrong:
        end = f"; it is wrong here on {', '.join(wrong)}" if wrong else ""
        sentences.append(f"The guide is right here {right} of {right + len(wrong)} times{end}.")
    return " ".join(sentences)


def _speed(one: Method) -> str:
    return f"{ratio(one.speedup.ratio if one.speedup else None)} the speed"


def _memory(one: Method) -> str:
    return f"{one.memory_ratio:.2f}{TIMES} the memory"


def _table(found: MethodsFound) -> list[str]:
    headers = [
        *("#", "method", "speed [95 %]", "verdict", "memory", "MiB", "state bytes per parameter"),
        *("loss difference", "guide: faster?", "guide: less memory?"),
    ]
    baseline = [
        *("", found.reference, f"1.000{TIMES}", "", f"1.00{TIMES}", number(found.reference_mib)),
        *(number(found.reference_state_bytes, 3), "0", "", ""),
    ]
    rows = [baseline, *([str(place), *_cells(one)] for place, one in enumerate(found.methods, 1))]
    text = {"method", "verdict", "guide: faster?", "guide: less memory?"}
    return table(headers, rows, numeric={*headers} - text)


def _cells(one: Method) -> list[str]:
    return [
        name_method(one),
        ratio_and_interval(one.speedup) if one.speedup else one.status,
        one.verdict or "",
        MISSING if one.memory_ratio is None else f"{one.memory_ratio:.2f}{TIMES}",
        number(one.memory_mib),
        number(one.state_bytes, 3),
        small(one.loss_difference),
        _said(one.guided.improves_speed if one.guided else None, one.speed_as_guided),
        _said(one.guided.saves_memory if one.guided else None, one.memory_as_guided),
    ]


def _said(words: str | None, agreement: str | None) -> str:
    """What the guide says, and whether it is so here."""
    if not words:
        return ""
    return f"{words}: {'so here' if agreement == AGREES else 'not here'}" if agreement else words


def _notes(found: MethodsFound) -> list[str]:
    """What the columns mean, and which optimizers train otherwise on purpose."""
    others = {
        change.after for one in found.methods for change in one.changes if change.after in OTHER_UPDATES
    }
    libraries = (
        "libraries included, since it is not known of all what lay there before the model"
        if found.with_libraries
        else "without the libraries that lay there before the model"
    )
    notes = [
        f"- memory: peak of a rank in the timed steps, {libraries}; within 2 % of the baseline's it counts "
        "as the same, since a peak has no interval",
    ]
    if bringing := sorted(others & {*BRING_A_LIBRARY}):
        notes.append(
            f"- {', '.join(bringing)}: the library that they bring along counts as theirs; with a small "
            "model it may take more than their states save, so that the guide is not judged by it"
        )
    if others:
        listed = "; ".join(f"{name}: {OTHER_UPDATES[name]}" for name in sorted(others))
        notes.append(
            "- these optimizers make another update than AdamW, so that only the first step's loss and "
            f"gradients must be the baseline's, and the loss difference is theirs: {listed}"
        )
    sources = sorted({one.source for one in read_guide()})
    notes.append(f"- guide: {'; '.join(sources)}; “(no)” is the guide's own bracket")
    return notes
