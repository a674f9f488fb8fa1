"""Which comparisons stand in a chart or table of many models, what stands together, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.analysis.answer import find_outcome, find_outcome_over_best
from bench.errors import UserError
from bench.report.content.answer import SUBJECTS, BackendAnswer, SettingAnswer
from bench.report.content.collection import Collection, ReportedComparison, group_by_machine
from bench.report.words import describe
from bench.report.words.formatting import one_line
from bench.report.words.titles import USUAL_REFERENCE
from bench.statistics.summary import PYTORCH
from bench.statistics.table_values import count_launches

CHART_BACKENDS = ("ortmodule", "ortmodule_zero1")
"""The bars of a chart and what a page answers about, unless others are asked for."""


def parse_names(words: str) -> list[str]:
    """The names in a list such as `gpt2,bert-large`."""
    return [name.strip() for name in words.split(",") if name.strip()]


def panels_of(comparisons: Sequence[ReportedComparison]) -> dict[str, list[ReportedComparison]]:
    """Comparisons by machine, rule of batches and reference, which its heading names."""
    machines = Collection(comparisons=comparisons).panels
    if len({comparison.reference for comparison in comparisons}) < 2:
        return machines
    panels: dict[str, list[ReportedComparison]] = {}
    for heading, group in machines.items():
        for comparison in group:
            panels.setdefault(f"{heading}; over {one_line(comparison.reference)}", []).append(comparison)
    return panels


def choose_one_of_each_model(comparisons: Sequence[ReportedComparison]) -> list[ReportedComparison]:
    """One comparison of each model and workload: that with most of the usual backends.

    If several have as many, one with several launches, which has a verdict; then that with fewest settings;
    then that measured last.
    """

    def key(comparison: ReportedComparison) -> tuple[int, bool, int]:
        backends = sum(comparison.of(name) is not None for name in CHART_BACKENDS)
        settings = [each for each in comparison.overrides if not each.startswith(("measure", "study="))]
        return -backends, count_launches(comparison.rows) < 2, len(settings)

    latest_first = sorted(comparisons, key=lambda comparison: comparison.stem)
    latest_first.sort(key=lambda comparison: comparison.measured_at, reverse=True)
    chosen: dict[tuple[str, ...], ReportedComparison] = {}
    for comparison in sorted(latest_first, key=key):
        chosen.setdefault(comparison.workload_key, comparison)
    return [comparison for comparison in comparisons if chosen[comparison.workload_key] is comparison]


def choose_backends(comparisons: Sequence[ReportedComparison], wanted: Sequence[str]) -> list[str]:
    """The backends to show: those that are wanted, or the usual ones that at least one comparison tried.

    Raises:
        UserError: a wanted one is in no comparison, or there is no backend but references.
    """
    there = list(dict.fromkeys(other.backend for comparison in comparisons for other in comparison.others))
    references = {comparison.reference for comparison in comparisons}
    for name in wanted:
        if name in references:
            raise UserError(f"{name} is the reference, which is the line at 1", "leave it out of --backends")
        if name not in there:
            raise UserError(f"no comparison has the backend {name}", f"choose of {', '.join(sorted(there))}")
    chosen = list(dict.fromkeys(wanted)) or [name for name in CHART_BACKENDS if name in there] or there
    if not chosen:
        raise UserError("these comparisons have no backend beside the reference", "measure another one")
    return chosen


def choose_models(
    comparisons: Sequence[ReportedComparison], wanted: Sequence[str]
) -> list[ReportedComparison]:
    """The comparisons of these models, in the order of the files; all without any.

    Raises:
        UserError: a wanted model is in no comparison.
    """
    there = sorted({comparison.model for comparison in comparisons})
    if unknown := [name for name in wanted if name not in there]:
        raise UserError(f"no comparison is of the model {unknown[0]}", f"choose of {', '.join(there)}")
    return [comparison for comparison in comparisons if not wanted or comparison.model in wanted]


def showable(
    comparisons: Sequence[ReportedComparison], *, as_speedup: bool
) -> tuple[list[ReportedComparison], list[str]]:
    """The comparisons whose numbers are results, and a sentence for each of the others.

    Where no speeds are shown, those at largest batches are none: less memory means nothing there.

    Raises:
        UserError: none is left.
    """
    kept, left_out = [], []
    for comparison in comparisons:
        if comparison.uncontrolled:
            reason = "it leaves threads or allocator alone on purpose"
        elif {"ok", "untimed"} & {summary.status for summary in comparison.summaries} == {"untimed"}:
            reason = "nothing of it was timed"
        elif comparison.at_largest and not as_speedup:
            reason = "each backend fills the memory with a batch of its own"
        else:
            kept.append(comparison)
            continue
        left_out.append(f"{comparison.stem} is left out: {reason}")
    if not kept:
        reasons = f" ({'; '.join(left_out)})" if left_out else ""
        raise UserError(f"there is no comparison to show{reasons}", "measure with `make bench`")
    return kept, left_out


# One row for each model

MOST_BACKENDS = 2  # backends that a row has columns for: the usual ones, or the first of others


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One model of a setting; at least one of its two comparisons is there."""

    name: str  # the model, and what tells it from the other rows
    as_installed: ReportedComparison | None  # with MKL as it is installed, or on a GPU
    full_path: ReportedComparison | None  # with MKL's full path

    @property
    def comparisons(self) -> list[ReportedComparison]:
        """The comparisons that are there; the row links to the first."""
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
        """The backends that it is about."""
        return choose_backends(self.comparisons, [])[:MOST_BACKENDS]

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

    A comparison that leaves something alone on purpose, or has timed nothing, or is not over a PyTorch, is in
    none. Of several comparisons of one model and workload, `choose_one_of_each_model` chooses by their
    backends, launches, overrides and time, never by their results. A model that one family has is not taken
    from a later one.
    """
    # a comparison is looked up by its identity: two may be equal in everything
    family_of = {id(comparison): number for number, family in enumerate(families) for comparison in family}
    eligible = [comparison for family in families for comparison in family if _is_eligible(comparison)]
    settings = [
        Setting(heading=heading, rows=_rows(group, family_of))
        for heading, group in group_by_machine(eligible, _heading).items()
    ]
    settings.sort(key=lambda setting: max(one.measured_at for one in setting.comparisons), reverse=True)
    return sorted(settings, key=lambda setting: -len(setting.rows))


def _is_eligible(comparison: ReportedComparison) -> bool:
    base = comparison.base
    return (
        not comparison.uncontrolled
        and bool(comparison.others)
        and {summary.status for summary in comparison.summaries} != {"untimed"}
        and (base is None or base.engine in PYTORCH)
    )


def _heading(comparison: ReportedComparison) -> str:
    largest = f"; {describe.largest_batch_rule(comparison.rows)}" if comparison.at_largest else ""
    over = f", over {comparison.reference}" if comparison.reference != USUAL_REFERENCE else ""
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
    """The model's name, with the parts of its workload that tell it from others of the same name."""
    same = [other.workload_parts for other in group if other.label == comparison.label]
    telling = [
        words
        for part, words in comparison.workload_parts.items()
        if words and any(other[part] != words for other in same)
    ]
    return one_line(", ".join([comparison.label, *telling]))
