"""reports/index.md: every comparison in tables, with the figures, the claims and how numbers are defined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bench.analysis import reference
from bench.analysis.attribution import Attribution, Fairness, Part
from bench.report import lines, text
from bench.report.claims import Finding
from bench.report.collection import Collection

DEFINITIONS = (
    (
        "samples/s",
        "steps × global batch ÷ seconds of the slowest rank; midmean of the logarithms over the rounds of a "
        "launch, geometric mean over launches.",
    ),
    ("tokens/s", "samples/s × sequence length, padding included."),
    ("speed-up", text.METHOD.removeprefix("Speed-up: ")),
    (
        "verdict",
        "same if the interval lies within ± the margin; else faster or slower if it excludes 1; else "
        "inconclusive.",
    ),
    (
        "of matmul rate",
        "model FLOP/s ÷ the matrix-product rate, both of all ranks. The model's FLOPs are counted: forward "
        "and backward of the reference with eager attention, padding included, optimizer and recomputation "
        "not. The rate is the quickest of square products at the same precision, measured before anything is "
        "timed, on all ranks at a time.",
    ),
    (
        "peak MiB",
        "highest of the timed blocks: the device's where there is one, else of the rank that has most.",
    ),
    (
        "largest batch",
        "with measure.batch=max each backend is measured at its own micro-batch: the largest with which a "
        "fresh start trains until it is warm, all under the same memory limit. The search doubles, then "
        "bisects; the smallest that did not fit is at most 3 % (at least 1) larger, unless "
        "measure.most_trials ended it. Such results have tables, figures and means of their own, apart from "
        "those at equal batch.",
    ),
    ("set-up s, first step s", "medians over launches; export and compilation are in the first step."),
    (
        "break-even steps",
        "extra set-up and first step ÷ seconds saved per step, where the verdict is faster.",
    ),
    (
        "attribution",
        "each choice's effect is averaged over all orders of changing one at a time (Shapley value); "
        "the parts multiply to the whole; intervals are over launches.",
    ),
    (
        "geometric mean",
        "over the workloads that have a speed-up, slowdowns as they are; one that was compared several times "
        "counts once; beside it how many comparisons have one.",
    ),
)
"""What a number means, for readers of the tables."""

CLAIMS = (
    "A verdict speaks of the comparisons that are named beside it and of nothing else: miniatures on a CPU "
    "say little of large models on GPUs."
)
"""How to read a verdict."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What index.md and index.html show.

    Attributes:
        figures: the files, in the order in which they are shown.
        not_drawn: what there was too much of for a figure, a sentence for each.
        findings: what became of each claim.
        warned: the harness's warnings about each comparison, by its file's stem.
        beside: the pages about what is no comparison, of `BESIDE`.
    """

    collection: Collection
    figures: Sequence[Path]
    not_drawn: Sequence[str]
    findings: Sequence[Finding]
    warned: Mapping[str, Sequence[str]]
    beside: Sequence["Beside"]


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A page beside this one.

    Attributes:
        name: its file.
        about: the words of the link.
        made_of: what of the results folder it is made of (bench/report/__main__.py).
    """

    name: str
    about: str
    made_of: str


BESIDE = (
    Beside(name="support.md", about="Which backend trains which model", made_of="matrix"),
    Beside(
        name="selftest.md",
        about="The harness, measured by comparisons whose outcome is known",
        made_of="selftest/verdicts.csv",
    ),
)
"""Those about what is no comparison."""


def markdown(contents: Contents) -> str:
    """The page."""
    collection, warned = contents.collection, contents.warned
    parts = ["# Results", "", "Rebuilt from `results/` alone by `make report`.", ""]
    for figure in contents.figures:
        parts += [f"![{text.escaped(caption(figure.stem))}]({quote(figure.name)})", ""]
    parts += [f"- {text.escaped(sentence)}; the tables hold all" for sentence in contents.not_drawn]
    parts += [""] * bool(contents.not_drawn)
    for hardware, comparisons in collection.panels.items():
        found = lines.lines(comparisons)
        columns = lines.shown_columns(found)
        parts += [f"## {text.escaped(hardware)}", ""]
        parts += _table(
            [(column.name, column.key is not None) for column in columns],
            [[column.cell(line) for column in columns] for line in found],
        )
        parts += _table(
            [("backend", False), ("geometric mean", True), ("with a speed-up", True)],
            [
                [one.backend, text.MISSING if one.ratio is None else text.ratio(one.ratio), _passed(one)]
                for one in lines.means(comparisons)
            ],
        )
        notes = [
            f"- {text.escaped(line.comparison.stem)}, {text.escaped(line.summary.backend)}: "
            f"{text.escaped(line.summary.message)}"
            for line in found
            if line.summary.message
        ]
        parts += [*notes, ""] if notes else []
    divided = [(one, one.attribution) for one in collection.controlled if one.attribution]
    if divided:
        parts += ["## What made the difference", ""]
    for comparison, attribution in divided:
        parts += [f"{text.escaped(comparison.stem)}: {text.escaped(_whole(attribution))}", ""]
        parts += _caution([comparison.stem], warned)
        parts += _parts(attribution.parts)
    if collection.fairness:
        parts += ["## What an uncontrolled harness would print", ""]
    for label, fairness in collection.fairness.items():
        parts += [f"{text.escaped(label)}: {text.escaped(_naive(fairness))}", ""]
        parts += _caution([one.stem for one in collection.of_fairness(label)], warned)
        parts += _parts(fairness.parts)
    parts += ["## Claims", "", CLAIMS, "", *_claims(contents.findings)]
    parts += ["## Every comparison", ""]
    for comparison in collection.comparisons:
        parts.append(
            f"- [{text.escaped(comparison.stem)}]({quote(comparison.stem)}.md)"
            f"{_warnings(len(warned[comparison.stem]))}"
            + (f"; in no table above, since {text.LEFT_ALONE}" if comparison.uncontrolled else "")
        )
    if contents.beside:
        parts += ["", "## Beside the comparisons", ""]
        parts += [f"- [{page.about}]({page.name})" for page in contents.beside]
    parts += ["", "## How the numbers are defined", ""]
    parts += [f"- **{name}**: {text.escaped(meaning)}" for name, meaning in DEFINITIONS]
    return "\n".join([*parts, ""])


_CAPTIONS = {
    "speedup": "Speed-up over the reference backend",
    "attribution": "What made the difference",
    "fairness": "What an uncontrolled harness would print",
    "memory": "Peak memory",
    "break-even": "Steps until the set-up is paid for",
    "rounds": "Step time in every round",
}


def caption(stem: str) -> str:
    """A figure in words, from the name of its file."""
    name = next(known for known in _CAPTIONS if stem.startswith(known))
    rest = stem.removeprefix(name).removeprefix("-")
    return f"{_CAPTIONS[name]}, {rest}" if rest else _CAPTIONS[name]


def _caution(stems: Sequence[str], warned: Mapping[str, Sequence[str]]) -> list[str]:
    count = sum(len(warned[stem]) for stem in stems)
    pages = ", ".join(f"[{text.escaped(stem)}]({quote(stem)}.md)" for stem in stems)
    return [f"The harness has {text.plural(count, 'warning')} about this: {pages}.", ""] if count else []


def _warnings(count: int) -> str:
    return f": {text.plural(count, 'warning')}" if count else ""


def _passed(one: lines.Mean) -> str:
    return f"{one.speedups} of {one.tried}"


def _whole(attribution: Attribution) -> str:
    total = attribution.total
    return (
        f"{attribution.end} runs at {text.ratio(total.ratio)} {text.interval(total)} of {attribution.start}; "
        "of this are"
    )


def _naive(fairness: Fairness) -> str:
    naive, own = fairness.naive, fairness.own
    return (
        f"with nothing held {fairness.backend} seems to run at {text.ratio(naive.ratio)} "
        f"{text.interval(naive)} of {fairness.reference}, with everything held at {text.ratio(own.ratio)} "
        f"{text.interval(own)}; what was left alone adds"
    )


def _parts(parts: Sequence[Part]) -> list[str]:
    return _table(
        [("choice", False), ("change", False), ("effect [95 %]", True), ("in single orders", True)],
        [
            [
                part.factor,
                part.change,
                f"{text.ratio(part.effect.ratio)} {text.interval(part.effect)}",
                f"{part.lowest:.3f} to {part.highest:.3f}",
            ]
            for part in parts
        ],
    )


def _claims(findings: Sequence[Finding]) -> list[str]:
    table = _table(
        [("claim", False), ("by", False), ("verdict", False)],
        [[one.claim.claim, one.claim.source, f"{one.verdict} {one.where}".strip()] for one in findings],
    )
    return [*table, *(line for one in findings for line in _evidence(one)), *_published()]


def _evidence(one: Finding) -> list[str]:
    """A list below the table: a cell with a dozen comparisons would not be read."""
    made = [f"made by: {'; '.join(one.commands)}"] if one.commands else []
    lines = [f"- {text.escaped(line)}" for line in (*one.evidence, *made)]
    return [f"{text.escaped(one.claim.claim)}:", "", *lines, ""]


def _published() -> list[str]:
    """The published figures, flagged; none of them is comparable with ours."""
    return [
        "Published speed-ups over PyTorch, each on hardware of its own, so that none can be compared with "
        "the above:",
        "",
        *_table(
            [("model", False), ("backend", False), ("speed-up", True), ("hardware", False), ("flag", False)],
            [
                [
                    one.model,
                    one.backend,
                    text.ratio(one.ratio),
                    one.hardware,
                    reference.FLAGS.get(one.flag, one.flag) or text.MISSING,
                ]
                for one in reference.speedups()
            ],
        ),
    ]


def _table(headers: Sequence[tuple[str, bool]], cells: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; numeric columns to the right."""
    return [
        _line([name for name, _ in headers]),
        _line(["---:" if numeric else "---" for _, numeric in headers]),
        *(_line([text.escaped(cell) for cell in line]) for line in cells),
        "",
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
