"""reports/index.md: every comparison in tables, with the figures, the claims and how numbers are defined."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from bench.analysis import reference
from bench.analysis.attribution import Attribution, Part
from bench.analysis.claims import Finding
from bench.analysis.fairness import Fairness
from bench.report import definitions
from bench.report.claim_words import evidence_lines
from bench.report.collection import Collection, ReportedComparison
from bench.report.formatting import MISSING, plural, ratio, ratio_and_interval
from bench.report.index_columns import lines_of, shown_columns
from bench.report.index_contents import Contents, caption, dark_of
from bench.report.markdown import escaped, table
from bench.report.means import geometric_means


def render_markdown(contents: Contents) -> str:
    """The page in Markdown."""
    collection, warned = contents.collection, contents.warned
    parts = ["# Results", "", "Rebuilt from `results/` alone by `make report`.", ""]
    for figure in contents.of_models:
        dark, light, words = quote(dark_of(figure).name), quote(figure.name), caption(figure.stem)
        parts += [
            f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
            f'<img src="{light}" alt="{words}; summary.csv holds its numbers"></picture>',
            "",
        ]
    for figure in contents.figures:
        parts += [f"![{escaped(caption(figure.stem))}]({quote(figure.name)})", ""]
    parts += [f"- {escaped(sentence)}; the tables hold all" for sentence in contents.not_drawn]
    parts += [""] * bool(contents.not_drawn)
    for hardware, comparisons in collection.panels.items():
        parts += _panel(hardware, comparisons)
    parts += _attributions(collection, warned)
    parts += _fairness(collection, warned)
    parts += ["## Claims", "", definitions.ABOUT_CLAIMS, "", *_claims(contents.findings), *_published()]
    parts += ["## Every comparison", ""]
    parts += [_link(comparison, len(warned[comparison.stem])) for comparison in collection.comparisons]
    if contents.other_pages:
        parts += ["", "## Beside the comparisons", ""]
        parts += [f"- [{page.about}]({page.name})" for page in contents.other_pages]
    parts += ["", "## How the numbers are defined", ""]
    parts += [f"- **{name}**: {escaped(meaning)}" for name, meaning in definitions.DEFINITIONS]
    return "\n".join([*parts, ""])


def _panel(hardware: str, comparisons: Sequence[ReportedComparison]) -> list[str]:
    """The comparisons that may stand in one table, each backend's mean, and what was said of single rows."""
    lines = lines_of(comparisons)
    columns = shown_columns(lines)
    notes = [
        f"- {escaped(line.comparison.stem)}, {escaped(line.summary.backend)}: {escaped(line.summary.message)}"
        for line in lines
        if line.summary.message
    ]
    return [
        f"## {escaped(hardware)}",
        "",
        *table(
            [column.name for column in columns],
            [[column.cell(line) for column in columns] for line in lines],
            numeric=[column.name for column in columns if column.is_numeric],
        ),
        *table(
            ["backend", "geometric mean", "with a speed-up"],
            [
                [mean.backend, ratio(mean.ratio), f"{mean.speedups} of {mean.tried}"]
                for mean in geometric_means(comparisons)
            ],
            numeric=["geometric mean", "with a speed-up"],
        ),
        *([*notes, ""] if notes else []),
    ]


def _attributions(collection: Collection, warned: Mapping[str, Sequence[str]]) -> list[str]:
    divided = [(one, one.attribution) for one in collection.controlled if one.attribution]
    lines = ["## What made the difference", ""] if divided else []
    for comparison, attribution in divided:
        lines += [f"{escaped(comparison.stem)}: {escaped(_whole(attribution))}", ""]
        lines += _caution([comparison.stem], warned)
        lines += _parts(attribution.parts)
    return lines


def _whole(attribution: Attribution) -> str:
    return (
        f"{attribution.end} runs at {ratio_and_interval(attribution.total)} of {attribution.start}; "
        "of this are"
    )


def _fairness(collection: Collection, warned: Mapping[str, Sequence[str]]) -> list[str]:
    lines = ["## What an uncontrolled harness would print", ""] if collection.fairness else []
    for label, fairness in collection.fairness.items():
        lines += [f"{escaped(label)}: {escaped(_uncontrolled(fairness))}", ""]
        lines += _caution([one.stem for one in collection.fairness_experiments[label]], warned)
        lines += _parts(fairness.parts)
    return lines


def _uncontrolled(fairness: Fairness) -> str:
    return (
        f"with nothing held {fairness.backend} seems to run at {ratio_and_interval(fairness.naive)} of "
        f"{fairness.reference}, with everything held at {ratio_and_interval(fairness.own)}; what was left "
        "alone adds"
    )


def _caution(stems: Sequence[str], warned: Mapping[str, Sequence[str]]) -> list[str]:
    """How many warnings there are about these comparisons, and where they stand."""
    count = sum(len(warned[stem]) for stem in stems)
    pages = ", ".join(f"[{escaped(stem)}]({quote(stem)}.md)" for stem in stems)
    return [f"The harness has {plural(count, 'warning')} about this: {pages}.", ""] if count else []


def _parts(parts: Sequence[Part]) -> list[str]:
    return table(
        ["choice", "change", "effect [95 %]", "in single orders"],
        [
            [
                part.factor,
                part.change,
                ratio_and_interval(part.effect),
                f"{part.lowest:.3f} to {part.highest:.3f}",
            ]
            for part in parts
        ],
        numeric=["effect [95 %]", "in single orders"],
    )


def _claims(findings: Sequence[Finding]) -> list[str]:
    verdicts = table(
        ["claim", "by", "verdict"],
        [[one.claim.claim, one.claim.source, f"{one.verdict} {one.where}".strip()] for one in findings],
    )
    return [*verdicts, *(line for finding in findings for line in _evidence(finding))]


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
        *table(
            ["model", "backend", "speed-up", "hardware", "flag"],
            [
                [
                    one.model,
                    one.backend,
                    ratio(one.ratio),
                    one.hardware,
                    reference.FLAGS.get(one.flag, one.flag) or MISSING,
                ]
                for one in reference.published_speedups()
            ],
            numeric=["speed-up"],
        ),
    ]


def _link(comparison: ReportedComparison, warnings: int) -> str:
    """The entry of a comparison in the list of all."""
    link = f"- [{escaped(comparison.stem)}]({quote(comparison.stem)}.md)"
    count = f": {plural(warnings, 'warning')}" if warnings else ""
    left_alone = f"; in no table above, since {definitions.LEFT_ALONE}" if comparison.uncontrolled else ""
    return f"{link}{count}{left_alone}"
