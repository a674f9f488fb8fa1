"""Which comparisons answer for a machine: one of each model and workload, by setting."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from bench.analysis.answer import find_outcome, find_outcome_over_best
from bench.config.backend import DEFAULT_REFERENCE
from bench.report.content.answer import SUBJECTS, BackendAnswer, SettingAnswer
from bench.report.content.collection import ReportedComparison, group_by_machine
from bench.report.words import describe
from bench.report.words.formatting import one_line
from bench.statistics.summary import PYTORCH
from bench.statistics.table_values import count_launches

ANSWERED = ("ortmodule", "ortmodule_zero1")
"""The backends that a page answers about, where any of its comparisons has them."""


def choose_one_of_each_model(comparisons: Sequence[ReportedComparison]) -> list[ReportedComparison]:
    """One comparison of each model and workload: the one with most of `ANSWERED`.

    Among equals one with several launches, which has a verdict, comes first; then the one with the fewest
    settings; then the latest.
    """

    def key(comparison: ReportedComparison) -> tuple[int, bool, int]:
        backends = sum(comparison.of(name) is not None for name in ANSWERED)
        settings = [each for each in comparison.overrides if not each.startswith(("measure", "study="))]
        return -backends, count_launches(comparison.rows) < 2, len(settings)

    latest_first = sorted(comparisons, key=lambda comparison: comparison.stem)
    latest_first.sort(key=lambda comparison: comparison.measured_at, reverse=True)
    chosen: dict[tuple[str, ...], ReportedComparison] = {}
    for comparison in sorted(latest_first, key=key):
        chosen.setdefault(comparison.workload_key, comparison)
    return [comparison for comparison in comparisons if chosen[comparison.workload_key] is comparison]


def answered_backends(comparisons: Sequence[ReportedComparison]) -> list[str]:
    """The backends of `ANSWERED` that any of these comparisons tried; without any, all but references."""
    there = list(dict.fromkeys(other.backend for comparison in comparisons for other in comparison.others))
    return [name for name in ANSWERED if name in there] or there


# One row for each model

MOST_BACKENDS = 2  # backends that a row has columns for: those of `ANSWERED`, or the first of others


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One model of a setting; at least one of its two comparisons exists."""

    name: str  # the model, and what distinguishes it from the other rows
    as_installed: ReportedComparison | None  # with MKL as it is installed, or on a GPU
    full_path: ReportedComparison | None  # with MKL's full path

    @property
    def comparisons(self) -> list[ReportedComparison]:
        """The comparisons that exist; the row links to the first."""
        return [comparison for comparison in (self.as_installed, self.full_path) if comparison is not None]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The models that were measured on one machine, with as many ranks, over one reference."""

    heading: str
    rows: Sequence[ModelRow]

    @property
    def comparisons(self) -> list[ReportedComparison]:
        """The comparisons of all rows."""
        return [comparison for row in self.rows for comparison in row.comparisons]

    @cached_property
    def backends(self) -> list[str]:
        """The backends that the setting's answer is about."""
        return answered_backends(self.comparisons)[:MOST_BACKENDS]

    @cached_property
    def answer(self) -> SettingAnswer:
        """What its comparisons say about these backends."""
        columns = [
            (find, [results for row in self.rows if (results := getattr(row, path))])
            for path in ("as_installed", "full_path")
            for find in (find_outcome, find_outcome_over_best)
        ]
        backends = [
            BackendAnswer(
                subject=SUBJECTS.get(name, name),
                outcomes=[[*filter(None, (find(one, name) for one in several))] for find, several in columns],
            )
            for name in self.backends
        ]
        return SettingAnswer(setting=self.heading, backends=backends)


def find_settings(families: Sequence[Sequence[ReportedComparison]]) -> list[Setting]:
    """The settings of these comparisons: those with most models first, of as many the one measured last.

    Comparisons that leave threads or allocator alone on purpose, have timed nothing, or have no PyTorch as
    reference are left out. Of several comparisons of one model and workload, `choose_one_of_each_model`
    chooses by their backends, launches, overrides and time, never by their results. A model that one family
    has is not taken from a later one.
    """
    # comparisons are found by identity: two may be equal in everything
    family_of = {id(comparison): number for number, family in enumerate(families) for comparison in family}
    eligible = [
        one
        for one in chain.from_iterable(families)
        if one.others and one.is_timed and not one.uncontrolled
        if one.base is None or one.base.engine in PYTORCH
    ]
    settings = [
        Setting(heading=heading, rows=_rows(group, family_of))
        for heading, group in group_by_machine(eligible, _heading).items()
    ]
    settings.sort(key=lambda setting: max(one.measured_at for one in setting.comparisons), reverse=True)
    return sorted(settings, key=lambda setting: -len(setting.rows))


def _heading(comparison: ReportedComparison) -> str:
    largest = f"; {describe.largest_batch_rule(comparison.rows)}" if comparison.at_largest else ""
    over = f", over {comparison.reference}" if comparison.reference != DEFAULT_REFERENCE else ""
    return one_line(f"{describe.short_machine(comparison.rows)}{over}{largest}")


def _rows(group: Sequence[ReportedComparison], family_of: dict[int, int]) -> list[ModelRow]:
    first: dict[str, int] = {}
    for comparison in group:  # those of the first family come first
        first.setdefault(comparison.label, family_of[id(comparison)])
    kept = [comparison for comparison in group if family_of[id(comparison)] == first[comparison.label]]
    by_path = [
        [comparison for comparison in kept if describe.has_full_path(comparison.rows) is full]
        for full in (True, False)
    ]
    full, stock = (
        {comparison.workload_key: comparison for comparison in choose_one_of_each_model(some)}
        for some in by_path
    )
    every = full | stock
    rows = [
        ModelRow(
            name=_name(comparison, list(every.values())), as_installed=stock.get(key), full_path=full.get(key)
        )
        for key, comparison in every.items()
    ]
    return sorted(rows, key=lambda row: row.name.lower())


def _name(comparison: ReportedComparison, group: Sequence[ReportedComparison]) -> str:
    """The model's name, with the parts of its workload that distinguish it from others of the same name."""
    same = [other.workload_parts for other in group if other.label == comparison.label]
    telling = [
        words
        for part, words in comparison.workload_parts.items()
        if words and any(other[part] != words for other in same)
    ]
    return one_line(", ".join([comparison.label, *telling]))
