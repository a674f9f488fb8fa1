"""The page of a machine: the answer, a figure and a row for each model; then everything else, folded."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.analysis import reference
from bench.analysis.attribution.choices import Attribution, Contribution
from bench.analysis.attribution.settings import Fairness
from bench.analysis.claims.judge import JudgedClaim
from bench.report.content import definitions
from bench.report.content.answer import QUESTION, AnswerWords, Sentence, put_in_words
from bench.report.content.backend_columns import SCREEN, backend_table, rows_of
from bench.report.content.blocks import (
    Block,
    Bold,
    Box,
    Bullets,
    Column,
    Folded,
    Heading,
    Link,
    Paragraph,
    Pictures,
    Preformatted,
    table,
    text_column,
    with_code,
)
from bench.report.content.claims import evidence_lines, verdict_words
from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.means import Mean, geometric_means
from bench.report.content.models import Setting
from bench.report.content.pictures import (
    ATTRIBUTION,
    CAPTIONS,
    SPEED,
    TIME,
    UNCONTROLLED,
    ReportFigure,
)
from bench.report.pages.comparison import comparison_blocks
from bench.report.pages.model_table import model_table
from bench.report.words.formatting import MISSING, as_sentence, plural, ratio, ratio_and_interval
from bench.results.environment_cell import latest_environment
from bench.statistics.table_values import distinct_text

MEANS: list[Column[Mean]] = [
    text_column("backend", lambda mean: mean.backend),
    Column("geometric mean", lambda mean: ratio(mean.ratio)),
    Column("with a speed-up", lambda mean: f"{mean.speedups} of {mean.tried}"),
]
PARTS: list[Column[Contribution]] = [
    text_column("choice", lambda part: part.factor),
    text_column("change", lambda part: part.change),
    Column("effect [95 %]", lambda part: ratio_and_interval(part.effect)),
    Column("in single orders", lambda part: f"{part.lowest:.3f} to {part.highest:.3f}"),
]
CLAIMS: list[Column[JudgedClaim]] = [
    text_column("claim", lambda finding: finding.claim.claim),
    text_column("by", lambda finding: finding.claim.source),
    text_column("verdict", verdict_words),
]
PUBLISHED: list[Column[reference.Published]] = [
    text_column("model", lambda mark: mark.model),
    text_column("backend", lambda mark: mark.backend),
    Column("speed-up", lambda mark: ratio(mark.ratio)),
    text_column("hardware", lambda mark: f"{mark.hardware}, {mark.precision or 'precision not stated'}"),
    text_column("flag", lambda mark: reference.FLAGS.get(mark.flag, mark.flag) or MISSING),
    text_column("source", lambda mark: ": ".join(filter(None, [mark.source, mark.note]))),
]


@dataclass(frozen=True, kw_only=True)
class MachinePage:
    """Everything that the page of a machine is made of."""

    machine: str  # what it is called; empty for a folder that is no machine's
    collection: Collection  # the comparisons, none under the title of another
    settings: Sequence[Setting]  # the same, one row for each model
    figures: Sequence[ReportFigure]  # in the order in which they are shown
    not_drawn: Sequence[str]  # what there was too much of for a figure, a sentence for each
    findings: Sequence[JudgedClaim]  # what became of each claim
    other_pages: Sequence[Link]  # to those that this report has

    @cached_property
    def answers(self) -> list[AnswerWords]:
        """The answer of each setting, in sentences."""
        return [put_in_words(setting.answer) for setting in self.settings]

    @property
    def about(self) -> str:
        """A line above the page on a screen."""
        count = plural(len(self.collection.comparisons), "comparison")
        return f"Training backends, compared: {count}, rebuilt from the results alone"

    def blocks(self, *, on_screen: bool) -> list[Block]:
        """The page; on a screen with the sortable table and environments, for which Markdown has no room."""
        tops = [_figures_of(setting, self.figures) for setting in self.settings]
        top = [figure for figures in tops for figure in figures]
        fallback = [] if top else [figure for figure in self.figures if figure.kind == "speedup"][:1]
        rest = [figure for figure in self.figures if figure not in (*top, *fallback)]
        blocks: list[Block] = [Heading(QUESTION, 1), *([Paragraph(self.machine)] if self.machine else [])]
        if self.collection.refused:
            refused = Bullets(self.collection.refused)
            blocks.append(Box([refused], label="Files that could not be read", look="failed"))
        for setting, answer, figures in zip(self.settings, self.answers, tops, strict=True):
            words = Box(_answer(answer), label=f"The answer: {answer.setting}", look="answer")
            rows = model_table(setting, "models" if setting is self.settings[0] else "")
            shown: list[Block] = [words, *(figure.picture for figure in figures), rows]
            blocks.append(Box(shown, label=setting.heading, look="machine"))
        if not self.settings:
            blocks.append(Paragraph(definitions.NO_ANSWER))
        blocks += [figure.picture for figure in fallback]
        if self.settings:
            blocks.append(Paragraph(definitions.ABOUT_MODELS, is_faint=True))
        return [*blocks, *self._sections(rest, on_screen=on_screen), *self._comparisons(on_screen=on_screen)]

    def _sections(self, figures: Sequence[ReportFigure], *, on_screen: bool) -> list[Block]:
        """Everything else; `figures` are those that do not stand at the top."""
        further = [figure for figure in figures if figure.kind not in (*TIME, ATTRIBUTION, UNCONTROLLED)]
        about_not_drawn = [f"{sentence}; the tables hold all" for sentence in self.not_drawn]
        sections: list[tuple[str, list[Block]]] = [
            ("Where a step's time goes", _pictures(figures, *TIME)),
            (
                "Memory, start and rounds in figures",
                [*_pictures(further, *CAPTIONS), *([Bullets(about_not_drawn)] if about_not_drawn else [])],
            ),
            ("Every backend of every comparison", self._every_backend() if on_screen else []),
            ("Means over comparisons", _means(self.collection)),
            ("What made the difference", [*self._by_choice(), *_pictures(figures, ATTRIBUTION)]),
            (
                "What an uncontrolled harness would print",
                [*self._by_setting(), *_pictures(figures, UNCONTROLLED)],
            ),
            ("What others claim, tested", _claims(self.findings)),
            ("What others published", _published()),
            (
                "How the numbers are defined",
                [Bullets([[Bold(name), f": {text}"] for name, text in definitions.DEFINITIONS])],
            ),
        ]
        return [Folded(heading, blocks, is_section=True) for heading, blocks in sections if blocks]

    def _by_choice(self) -> list[Block]:
        blocks: list[Block] = []
        for comparison in self.collection.controlled:
            if divided := comparison.attribution:
                total = f"{divided.end} runs at {ratio_and_interval(divided.total)} of {divided.start}"
                blocks += _parts(f"{comparison.title}: {total}; of this are", divided, [comparison])
        return blocks

    def _by_setting(self) -> list[Block]:
        blocks: list[Block] = []
        for label, divided in self.collection.fairness.items():
            words = (
                f"{label}: with nothing held {divided.backend} seems to run at "
                f"{ratio_and_interval(divided.naive)} of {divided.reference}, with everything held at "
                f"{ratio_and_interval(divided.own)}; what was left alone adds"
            )
            blocks += _parts(words, divided, self.collection.fairness_experiments[label])
        return blocks

    def _every_backend(self) -> list[Block]:
        """A sortable table for each machine, and what was said of single rows."""
        blocks: list[Block] = []
        for heading, comparisons in self.collection.panels.items():
            rows = rows_of(comparisons)
            notes = [
                f"{row.comparison.title}, {row.summary.backend}: {row.summary.message}"
                for row in rows
                if row.summary.message
            ]
            blocks.append(Heading(heading, 3))
            blocks.append(backend_table(SCREEN, rows, label=heading, is_sortable=True))
            if notes:
                blocks.append(Folded("What was said of single rows", [Bullets(notes)]))
        return blocks

    def _comparisons(self, *, on_screen: bool) -> list[Block]:
        comparisons = self.collection.comparisons
        pages = self.other_pages
        further: list[Block] = [Paragraph("Further pages:"), Bullets(pages)] if pages else []
        return [
            Heading(f"All {plural(len(comparisons), 'comparison')}{_warnings(comparisons, ', ')}"),
            *(
                Folded(
                    _summary(comparison),
                    [*comparison_blocks(comparison), *(_environment(comparison) if on_screen else [])],
                    anchor=comparison.anchor,
                )
                for comparison in comparisons
            ),
            *further,
            Paragraph(with_code("Rebuilt from `results/` alone by `make report`.")),
        ]


# The answer


def _figures_of(setting: Setting, figures: Sequence[ReportFigure]) -> list[ReportFigure]:
    """The first figure of speed that shows comparisons of a setting."""
    anchors = {comparison.anchor for row in setting.rows for comparison in row.comparisons}
    return [figure for figure in figures if figure.kind == SPEED and anchors & figure.anchors][:1]


def _answer(answer: AnswerWords) -> list[Block]:
    first, *others = answer.sentences
    return [
        Heading(answer.setting),
        *([Paragraph(as_sentence(answer.reduced), is_faint=True)] if answer.reduced else []),
        *_sentence(first),
        *([Paragraph([Bold("Why?"), f" {answer.why}"])] if answer.why else []),
        Paragraph([Bold("What to do?"), f" {answer.to_do}"]),
        *(block for sentence in others for block in _sentence(sentence)),
    ]


def _sentence(sentence: Sentence) -> list[Block]:
    """Its clauses one below the other: what stands above them claims nothing by itself."""
    if not sentence.clauses:
        return [Paragraph(sentence.begin)]
    memory = [Paragraph(as_sentence(sentence.memory))] if sentence.memory else []
    return [Paragraph(f"How often {sentence.begin}:"), Bullets(sentence.clauses), *memory]


# Everything else


def _pictures(figures: Sequence[ReportFigure], *kinds: str) -> list[Block]:
    pictures = [figure.picture for figure in figures if figure.kind in kinds]
    return [Pictures(pictures)] if pictures else []


def _means(collection: Collection) -> list[Block]:
    blocks: list[Block] = []
    for heading, comparisons in collection.panels.items():
        blocks += [Paragraph(f"{heading}:"), table(geometric_means(comparisons), MEANS, label=heading)]
    return blocks


def _parts(
    words: str, divided: Attribution | Fairness, comparisons: Sequence[ReportedComparison]
) -> list[Block]:
    """The parts of a speed-up; how many warnings there are about its comparisons, and where they stand."""
    blocks: list[Block] = [Paragraph(words)]
    if warnings := _warnings(comparisons):
        links = [part for each in comparisons for part in ("; ", Link(each.title, f"#{each.anchor}"))][1:]
        blocks.append(Paragraph([f"The harness has {warnings} about this: ", *links, "."]))
    return [*blocks, table(divided.parts, PARTS, label=words)]


def _warnings(comparisons: Sequence[ReportedComparison], before: str = "") -> str:
    """`12 warnings` and what separates them from the words before; empty without any."""
    count = sum(len(comparison.warnings) for comparison in comparisons)
    return f"{before}{plural(count, 'warning')}" if count else ""


def _claims(findings: Sequence[JudgedClaim]) -> list[Block]:
    """The verdicts; the evidence below, since a cell with a dozen comparisons would not be read."""
    blocks: list[Block] = [Paragraph(definitions.ABOUT_CLAIMS, is_faint=True), table(findings, CLAIMS)]
    for finding in findings:
        commands = [f"made by: {'; '.join(finding.commands)}"] if finding.commands else []
        blocks += [Paragraph(f"{finding.claim.claim}:"), Bullets([*evidence_lines(finding), *commands])]
    return blocks


def _published() -> list[Block]:
    """The published figures, flagged; none of them is comparable with ours."""
    about = (
        "Published speed-ups over PyTorch, each on hardware of its own, so that none can be compared with "
        "the above:"
    )
    return [Paragraph(about), table(reference.published_speedups(), PUBLISHED)]


def _summary(comparison: ReportedComparison) -> str:
    """What is seen of a comparison before it is unfolded."""
    left_alone = f"; in no table above, since {definitions.LEFT_ALONE}" if comparison.uncontrolled else ""
    return f"{comparison.title}{_warnings([comparison], ': ')}{left_alone}"


def _environment(comparison: ReportedComparison) -> list[Block]:
    """Everything that is recorded of where it ran."""
    hashes = [distinct_text(comparison.rows, f"{name}_hash") for name in ("config", "environment")]
    text = json.dumps(latest_environment(comparison.rows), indent=1, sort_keys=True, ensure_ascii=False)
    return [
        Paragraph("configuration {}, environment {}".format(*hashes), is_faint=True),
        Folded("Environment", [Preformatted(text)]),
    ]
