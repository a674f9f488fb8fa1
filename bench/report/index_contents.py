"""What index.md and index.html show, and the captions that they share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.analysis.claims import Finding
from bench.report.answer_words import AnswerWords, put_in_words
from bench.report.collection import Collection, ReportedComparison
from bench.report.division_words import Division, divisions_of
from bench.report.formatting import plural
from bench.report.index_models import ModelTable, model_table
from bench.report.model_rows import Setting


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
    name="selftest.md",
    about="The harness, measured by comparisons whose outcome is known",
    study="selftest",
)

METHODS = OtherPage(
    name="methods.md", about="What each method of training saves, and what it costs", study="methods"
)

SPEED = "models-speedup"
"""Begins the names of the figures of speed over many models."""


@dataclass(frozen=True, kw_only=True)
class FigureSet:
    """What the figures with the same number show: comparisons of several models on one machine.

    Attributes:
        words: machine, settings and models.
        comparisons: one of each model.
    """

    words: str
    comparisons: Sequence[ReportedComparison]

    @property
    def anchors(self) -> set[str]:
        """Where the page shows its comparisons."""
        return {one.anchor for one in self.comparisons}


@dataclass(frozen=True, kw_only=True)
class MachineSection:
    """What the page shows first: of one machine the answer, the figure of its models, a row for each.

    Attributes:
        answer: in sentences.
        figures: of speed, at most one.
        table: of the models.
    """

    answer: AnswerWords
    figures: Sequence[Path]
    table: ModelTable


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything that is shown on the page of a machine.

    Attributes:
        machine: what it is called; empty for a folder that is no machine's.
        collection: the comparisons, none under the title of another.
        settings: the same, one row for each model.
        of_models: the figures over many models, in the order in which they are shown.
        sets: what each set of such figures shows, in the order of their numbers.
        figures: the files of all others, in the order in which they are shown.
        not_drawn: what there was too much of for a figure, a sentence for each.
        findings: what became of each claim.
        other_pages: those that this report has.
    """

    machine: str
    collection: Collection
    settings: Sequence[Setting]
    of_models: Sequence[Path]
    sets: Sequence[FigureSet]
    figures: Sequence[Path]
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
    def fallback_figures(self) -> list[Path]:
        """The figures at the top of a page that has none over several models: those of single comparisons."""
        if any(machine.figures for machine in self.machines):
            return []
        return [path for path in self.figures if path.stem == "speedup"]

    def _figures_of(self, setting: Setting) -> list[Path]:
        """The first figure of speed that shows comparisons of a setting."""
        mine = {one.anchor for row in setting.rows for one in row.shown}
        return [
            path
            for path in self.of_models
            if path.stem.startswith(SPEED) and not mine.isdisjoint(self._set_of(path).anchors)
        ][:1]

    def _set_of(self, path: Path) -> FigureSet:
        """What a figure over many models shows, by the number at the end of its name."""
        number = path.stem.rpartition("-")[2]
        return self.sets[int(number) - 1 if number.isdigit() else 0]

    @property
    def about_time(self) -> list[Path]:
        """The figures of where a step's time goes."""
        return self._other_figures("models-breakdown", "breakdown")

    @property
    def divisions(self) -> list[tuple[Division, list[Path]]]:
        """What speed-ups were divided into, with the figures of it."""
        return [(one, self._other_figures(one.anchor)) for one in divisions_of(self.collection)]

    @property
    def further_figures(self) -> list[Path]:
        """All figures that have no section of their own."""
        shown = [*self.about_time, *(path for _, paths in self.divisions for path in paths)]
        return [path for path in self._other_figures("") if path not in shown]

    def _other_figures(self, *beginnings: str) -> list[Path]:
        """Those whose names begin like this, but for those at the top."""
        first = [*self.fallback_figures, *(path for one in self.machines for path in one.figures)]
        every = (*self.of_models, *self.figures)
        return [path for path in every if path not in first and path.stem.startswith(beginnings)]

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

    def caption(self, path: Path) -> str:
        """A figure in words, from the name of its file: what it shows, and of which comparison."""
        name = next(known for known in _CAPTIONS if path.stem.startswith(known))
        rest = path.stem.removeprefix(name).removeprefix("-")
        if path in self.of_models:
            return f"{_CAPTIONS[name]}: {self._set_of(path).words}"
        titles = {one.anchor: one.title for one in self.collection.comparisons}
        return f"{_CAPTIONS[name]}, {titles.get(rest, rest)}" if rest else _CAPTIONS[name]


_CAPTIONS = {
    "models-speedup": "Training speed, model by model",
    "models-memory": "Peak memory, model by model",
    "models-energy": "Energy per sample, model by model",
    "models-breakdown": "Where a step's time goes, model by model",
    "speedup": "Speed-up over the reference backend",
    "breakdown": "Where a step's time goes",
    "attribution": "What made the difference",
    "fairness": "What an uncontrolled harness would print",
    "memory": "Peak memory",
    "break-even": "Steps until the set-up is paid for",
    "converge": "Held-out loss against time",
    "beginning": "What each backend takes to begin",
    "rounds": "Step time in every round",
}
