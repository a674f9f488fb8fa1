"""index.md of a machine: the answer, a figure and a row for each model; then everything else, folded."""

import html
from collections.abc import Callable, Sequence
from urllib.parse import quote

from bench.analysis import reference
from bench.analysis.attribution import Part
from bench.analysis.claims import Finding
from bench.report.comparison_page import render_comparison
from bench.report.content import definitions
from bench.report.content.answer import QUESTION, AnswerWords, Sentence
from bench.report.content.claims import evidence_lines, verdict_words
from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.divisions import Division
from bench.report.content.means import Mean, geometric_means
from bench.report.index_contents import Contents, ReportFigure
from bench.report.index_models import STATUS, ModelTable
from bench.report.markdown import table, table_of
from bench.report.render.markdown import escaped
from bench.report.words.formatting import MISSING, plural, ratio, ratio_and_interval

_MEANS: dict[str, Callable[[Mean], str]] = {
    "backend": lambda mean: mean.backend,
    "geometric mean": lambda mean: ratio(mean.ratio),
    "with a speed-up": lambda mean: f"{mean.speedups} of {mean.tried}",
}
_PARTS: dict[str, Callable[[Part], str]] = {
    "choice": lambda part: part.factor,
    "change": lambda part: part.change,
    "effect [95 %]": lambda part: ratio_and_interval(part.effect),
    "in single orders": lambda part: f"{part.lowest:.3f} to {part.highest:.3f}",
}
_CLAIMS: dict[str, Callable[[Finding], str]] = {
    "claim": lambda one: one.claim.claim,
    "by": lambda one: one.claim.source,
    "verdict": verdict_words,
}
_PUBLISHED: dict[str, Callable[[reference.Published], str]] = {
    "model": lambda one: one.model,
    "backend": lambda one: one.backend,
    "speed-up": lambda one: ratio(one.ratio),
    "hardware": lambda one: one.hardware,
    "flag": lambda one: reference.FLAGS.get(one.flag, one.flag) or MISSING,
}


def render_markdown(contents: Contents) -> str:
    """The page in Markdown."""
    collection = contents.collection
    parts = [f"# {QUESTION}", "", *([escaped(contents.machine), ""] if contents.machine else [])]
    for machine in contents.machines:
        parts += _answer(machine.answer)
        parts += _figures(machine.figures)
        parts += _models(machine.table)
    if not contents.machines:
        parts += [definitions.NO_ANSWER, ""]
    parts += _figures(contents.fallback_figures)
    if contents.machines:
        parts += [definitions.ABOUT_MODELS, ""]
    sections = (
        ("Where a step's time goes", _figures(contents.about_time)),
        ("Memory, start and rounds in figures", _further_figures(contents)),
        ("Means over comparisons", _means(collection)),
        *(
            (division.heading, _division(division, figures, contents))
            for division, figures in contents.divisions
        ),
        ("What others claim, tested", [definitions.ABOUT_CLAIMS, "", *_claims(contents.findings)]),
        ("What others published", _published()),
        ("How the numbers are defined", _definitions()),
    )
    for heading, lines in sections:
        parts += _folded(f"<b>{heading}</b>", lines)
    parts += [f"## {contents.heading_of_all}", ""]
    for one in collection.comparisons:
        parts += [f'<a id="{quote(one.anchor)}"></a>', "", *_folded(_summary(one), [render_comparison(one)])]
    if contents.other_pages:
        parts += ["Further pages:", ""]
        parts += [f"- [{page.about}]({page.name})" for page in contents.other_pages]
        parts += [""]
    parts += ["Rebuilt from `results/` alone by `make report`."]
    return "\n".join([*parts, ""])


# The answer


def _answer(answer: AnswerWords) -> list[str]:
    first, *others = answer.sentences
    return [
        f"## {escaped(answer.setting)}",
        "",
        *([f"{escaped(answer.reduced[0].upper() + answer.reduced[1:])}.", ""] if answer.reduced else []),
        *_sentence(first),
        *([f"**Why?** {escaped(answer.why)}", ""] if answer.why else []),
        f"**What to do?** {escaped(answer.to_do)}",
        "",
        *(line for one in others for line in _sentence(one)),
    ]


def _sentence(one: Sentence) -> list[str]:
    """Its clauses one below the other."""
    items = [f"- than {escaped(c.than)} on **{c.count}** ({escaped(c.details)})" for c in one.clauses]
    memory = [f"{escaped(one.memory[0].upper() + one.memory[1:])}.", ""] if one.memory else []
    return [escaped(one.begin), "", *items, *([""] if items else []), *memory]


def _models(models: ModelTable) -> list[str]:
    """A row for each model; its name leads to the comparison that the row is made of."""
    return table(
        ["model", *map(escaped, models.headers)],
        [
            [
                f"[{escaped(row.name)}](#{quote(row.comparison.anchor)})",
                *(escaped(cell.line) for cell in row.cells),
            ]
            for row in models.rows
        ],
        numeric=[escaped(header) for header in models.headers if header != STATUS],
        escape=False,
    )


# Everything else


def _folded(heading: str, lines: Sequence[str]) -> list[str]:
    """A section that opens at a click; nothing if it would be empty. Markdown needs the empty lines."""
    if not lines:
        return []
    return [f"<details><summary>{heading}</summary>", "", *lines, "</details>", ""]


def _figures(figures: Sequence[ReportFigure]) -> list[str]:
    return [line for one in figures for line in (f"![{escaped(one.caption)}]({quote(one.path.name)})", "")]


def _further_figures(contents: Contents) -> list[str]:
    lines = _figures(contents.further_figures)
    lines += [f"- {escaped(sentence)}; the tables hold all" for sentence in contents.not_drawn]
    return [*lines, *([""] if contents.not_drawn else [])]


def _means(collection: Collection) -> list[str]:
    lines = []
    for heading, comparisons in collection.panels.items():
        lines += [
            f"{escaped(heading)}:",
            "",
            *table_of(geometric_means(comparisons), _MEANS, numeric=list(_MEANS)[1:]),
        ]
    return lines


def _division(division: Division, figures: Sequence[ReportFigure], contents: Contents) -> list[str]:
    lines = []
    for one in division.divided:
        lines += [escaped(one.words), "", *_caution(one.comparisons, contents)]
        lines += table_of(one.parts, _PARTS, numeric=["effect [95 %]", "in single orders"])
    return [*lines, *_figures(figures)]


def _caution(comparisons: Sequence[ReportedComparison], contents: Contents) -> list[str]:
    """How many warnings there are about these comparisons, and where they stand."""
    count = contents.warnings_about(comparisons)
    pages = "; ".join(f"[{escaped(one.title)}](#{quote(one.anchor)})" for one in comparisons)
    return [f"The harness has {plural(count, 'warning')} about this: {pages}.", ""] if count else []


def _claims(findings: Sequence[Finding]) -> list[str]:
    return [*table_of(findings, _CLAIMS), *(line for finding in findings for line in _evidence(finding))]


def _evidence(finding: Finding) -> list[str]:
    """A list below the table: a cell with a dozen comparisons would not be read."""
    commands = [f"made by: {'; '.join(finding.commands)}"] if finding.commands else []
    lines = [f"- {escaped(line)}" for line in (*evidence_lines(finding), *commands)]
    return [f"{escaped(finding.claim.claim)}:", "", *lines, ""]


def _published() -> list[str]:
    """The published figures, flagged; none of them is comparable with ours."""
    return [
        "Published speed-ups over PyTorch, each on hardware of its own, so that none can be compared with "
        "the above:",
        "",
        *table_of(reference.published_speedups(), _PUBLISHED, numeric=["speed-up"]),
    ]


def _summary(comparison: ReportedComparison) -> str:
    """What is seen of a comparison before it is unfolded."""
    count = len(comparison.warnings)
    warnings = f": {plural(count, 'warning')}" if count else ""
    left_alone = f"; in no table above, since {definitions.LEFT_ALONE}" if comparison.uncontrolled else ""
    return f"{html.escape(comparison.title)}{warnings}{left_alone}"


def _definitions() -> list[str]:
    return [*(f"- **{name}**: {escaped(meaning)}" for name, meaning in definitions.DEFINITIONS), ""]
