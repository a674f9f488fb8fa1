"""One row for each model: which comparison stands for it, and what all of one machine answer together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.analysis.answer import MeasuredModel, ModelsAnswer, answer
from bench.report.content.collection import FAIRNESS, ReportedComparison, group_by_machine
from bench.report.content.selection import CHART_BACKENDS, choose_one_of_each_model
from bench.report.words import describe
from bench.report.words.formatting import one_line
from bench.report.words.titles import USUAL_REFERENCE, spell_model
from bench.statistics.summary import PYTORCH

MOST_BACKENDS = 2
"""Backends that a row has columns for: the usual ones, or the first of others."""


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One model of a setting; at least one of its two comparisons is there."""

    name: str  # the model, and what tells it from the other rows
    as_installed: ReportedComparison | None  # with MKL as it is installed, or on a GPU
    full_path: ReportedComparison | None  # with MKL's full path

    @property
    def comparisons(self) -> list[ReportedComparison]:
        """The comparisons that are there; the row links to the first."""
        return [one for one in (self.as_installed, self.full_path) if one is not None]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The models that were measured on one machine, with as many ranks, over one reference."""

    heading: str
    rows: Sequence[ModelRow]

    @cached_property
    def measured_at(self) -> str:
        """When the last launch of its newest comparison began, in ISO 8601, UTC."""
        return max(comparison.measured_at for row in self.rows for comparison in row.comparisons)

    @cached_property
    def backends(self) -> list[str]:
        """The backends that it is about: the usual ones that were tried, or else the first of the others."""
        others = [
            other.backend
            for row in self.rows
            for comparison in row.comparisons
            for other in comparison.others
        ]
        usual = [name for name in CHART_BACKENDS if name in others]
        return (usual or list(dict.fromkeys(others)))[:MOST_BACKENDS]

    @cached_property
    def answer(self) -> ModelsAnswer:
        """What its comparisons say about these backends."""
        return answer(
            self.heading,
            [_measured(row.name, row.as_installed) for row in self.rows if row.as_installed],
            [_measured(row.name, row.full_path) for row in self.rows if row.full_path],
            self.backends,
        )


def _measured(name: str, one: ReportedComparison) -> MeasuredModel:
    return MeasuredModel(model=name, results=one, breakdowns=one.breakdowns, is_reduced=one.is_reduced)


def find_settings(families: Sequence[Sequence[ReportedComparison]]) -> list[Setting]:
    """The settings of these comparisons: those with most models first, of as many the one measured last.

    A comparison that leaves something alone on purpose, or has timed nothing, or is not over a PyTorch, is in
    none. Of several comparisons of one model and workload, `choose_one_of_each_model` chooses by their
    backends, overrides and time, never by their results.

    Args:
        families: comparisons that belong together; a model that one has is not taken from a later one.
    """
    # a comparison is looked up by its identity: two may be equal in everything
    family_of = {id(comparison): number for number, family in enumerate(families) for comparison in family}
    eligible = [comparison for family in families for comparison in family if _is_eligible(comparison)]
    settings = [
        Setting(heading=heading, rows=_rows(group, family_of))
        for heading, group in group_by_machine(eligible, _heading).items()
    ]
    newest_first = sorted(settings, key=lambda setting: setting.measured_at, reverse=True)
    return sorted(newest_first, key=lambda setting: -len(setting.rows))


def _is_eligible(one: ReportedComparison) -> bool:
    base = one.of(one.reference)
    return (
        not one.uncontrolled
        and one.study != FAIRNESS
        and bool(one.others)
        and {summary.status for summary in one.summaries} != {"untimed"}
        and (base is None or base.engine in PYTORCH)
    )


def _heading(one: ReportedComparison) -> str:
    largest = f"; {describe.largest_batch_rule(one.rows)}" if one.at_largest else ""
    over = f", over {one.reference}" if one.reference != USUAL_REFERENCE else ""
    return one_line(f"{describe.short_machine(one.rows)}{over}{largest}")


def _rows(group: Sequence[ReportedComparison], family_of: dict[int, int]) -> list[ModelRow]:
    first: dict[str, int] = {}
    for comparison in group:
        first[comparison.label] = min(
            family_of[id(comparison)], first.get(comparison.label, family_of[id(comparison)])
        )
    kept = [comparison for comparison in group if family_of[id(comparison)] == first[comparison.label]]
    by_path = [
        [comparison for comparison in kept if describe.has_full_path(comparison.rows) is full]
        for full in (True, False)
    ]
    full, stock = ({one.workload_key: one for one in choose_one_of_each_model(some)} for some in by_path)
    every = full | stock
    rows = [
        ModelRow(name=_name(one, list(every.values())), as_installed=stock.get(key), full_path=full.get(key))
        for key, one in every.items()
    ]
    return sorted(rows, key=lambda row: row.name.lower())


def _name(one: ReportedComparison, group: Sequence[ReportedComparison]) -> str:
    """The model's name, with the parts of its workload that tell it from others of the same name."""
    same = [other.workload_parts for other in group if other.label == one.label]
    telling = [
        words
        for part, words in one.workload_parts.items()
        if words and any(other[part] != words for other in same)
    ]
    return one_line(", ".join([spell_model(one.label), *telling]))
