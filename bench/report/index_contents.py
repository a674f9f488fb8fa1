"""What index.md and index.html show."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.analysis.claims import Finding
from bench.report.content.answer import AnswerWords, put_in_words
from bench.report.content.collection import Collection, ReportedComparison
from bench.report.content.divisions import Division, divisions_of
from bench.report.content.models import Setting
from bench.report.index_models import ModelTable, model_table
from bench.report.words.formatting import plural


@dataclass(frozen=True, kw_only=True)
class OtherPage:
    """A page beside that of a machine's comparisons.

    Attributes:
        name: its file.
        about: the words of the link.
        study: whose results it is made of.
    """

    name: str
    about: str
    study: str


SUPPORT = OtherPage(name="support.md", about="Which backend trains which model", study="matrix")

SELFTEST = OtherPage(
    name="selftest.md", about="The harness, measured by comparisons whose outcome is known", study="selftest"
)

METHODS = OtherPage(
    name="methods.md", about="What each method of training saves, and what it costs", study="methods"
)

SPEED, BREAKDOWN = "models-speedup", "models-breakdown"
"""Kinds of figures over many models."""

CAPTIONS = {
    SPEED: "Training speed, model by model",
    "models-memory": "Peak memory, model by model",
    "models-energy": "Energy per sample, model by model",
    BREAKDOWN: "Where a step's time goes, model by model",
    "speedup": "Speed-up over the reference backend",
    "breakdown": "Where a step's time goes",
    "attribution": "What made the difference",
    "fairness": "What an uncontrolled harness would print",
    "memory": "Peak memory",
    "converge": "Held-out loss against time",
    "beginning": "What each backend takes to begin",
    "rounds": "Step time in every round",
    "methods": "What each method of training saves, and what it costs",
}
"""What a figure of each kind shows."""


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """A figure of a report.

    Attributes:
        path: its file.
        kind: what it shows, of `CAPTIONS`.
        of: of what, in words; empty for all comparisons.
        anchors: of the comparisons that it is of, where these are some.
    """

    path: Path
    kind: str
    of: str = ""
    anchors: Set[str] = frozenset()

    @property
    def caption(self) -> str:
        """The figure in words."""
        return ": ".join(filter(None, (CAPTIONS[self.kind], self.of)))


@dataclass(frozen=True, kw_only=True)
class MachineSection:
    """What the page shows first: of one machine the answer, the figure of its models, a row for each.

    Attributes:
        answer: in sentences.
        figures: of speed, at most one.
        table: of the models.
    """

    answer: AnswerWords
    figures: Sequence[ReportFigure]
    table: ModelTable


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything that is shown on the page of a machine.

    Attributes:
        machine: what it is called; empty for a folder that is no machine's.
        collection: the comparisons, none under the title of another.
        settings: the same, one row for each model.
        of_models: the figures over many models, in the order in which they are shown.
        figures: all others, in the order in which they are shown.
        not_drawn: what there was too much of for a figure, a sentence for each.
        findings: what became of each claim.
        other_pages: those that this report has.
    """

    machine: str
    collection: Collection
    settings: Sequence[Setting]
    of_models: Sequence[ReportFigure]
    figures: Sequence[ReportFigure]
    not_drawn: Sequence[str]
    findings: Sequence[Finding]
    other_pages: Sequence[OtherPage]

    @cached_property
    def answers(self) -> list[AnswerWords]:
        """The answer of each setting, in sentences."""
        return [put_in_words(setting.answer) for setting in self.settings]

    @cached_property
    def machines(self) -> list[MachineSection]:
        """A section for each setting."""
        return [
            MachineSection(answer=answer, figures=self._figures_of(setting), table=model_table(setting))
            for answer, setting in zip(self.answers, self.settings, strict=True)
        ]

    @property
    def fallback_figures(self) -> list[ReportFigure]:
        """The figure at the top of a page that has none over several models: of single comparisons."""
        if any(machine.figures for machine in self.machines):
            return []
        return [figure for figure in self.figures if figure.kind == "speedup"][:1]

    def _figures_of(self, setting: Setting) -> list[ReportFigure]:
        """The first figure of speed that shows comparisons of a setting."""
        mine = {one.anchor for row in setting.rows for one in row.shown}
        of_speed = [figure for figure in self.of_models if figure.kind == SPEED]
        return [figure for figure in of_speed if mine & figure.anchors][:1]

    @property
    def about_time(self) -> list[ReportFigure]:
        """The figures of where a step's time goes."""
        return self._other_figures(BREAKDOWN, "breakdown")

    @property
    def divisions(self) -> list[tuple[Division, list[ReportFigure]]]:
        """What speed-ups were divided into, with the figures of it."""
        return [(one, self._other_figures(one.anchor)) for one in divisions_of(self.collection)]

    @property
    def further_figures(self) -> list[ReportFigure]:
        """All figures that have no section of their own."""
        shown = [*self.about_time, *(figure for _, figures in self.divisions for figure in figures)]
        return [figure for figure in self._other_figures(*CAPTIONS) if figure not in shown]

    def _other_figures(self, *kinds: str) -> list[ReportFigure]:
        """Those of these kinds, but for those at the top."""
        first = [*self.fallback_figures, *(figure for one in self.machines for figure in one.figures)]
        every = (*self.of_models, *self.figures)
        return [figure for figure in every if figure.kind in kinds and figure not in first]

    def warnings_about(self, comparisons: Sequence[ReportedComparison]) -> int:
        """How many warnings there are about these comparisons."""
        return sum(len(one.warnings) for one in comparisons)

    @property
    def heading_of_all(self) -> str:
        """`All 14 comparisons, 112 warnings`."""
        every = self.collection.comparisons
        count = self.warnings_about(every)
        warnings = f", {plural(count, 'warning')}" if count else ""
        return f"All {plural(len(every), 'comparison')}{warnings}"
