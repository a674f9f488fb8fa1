"""All comparisons of a report, each file read and summarised once; every table and figure starts here."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.steadiness.warnings import SteadinessWarning, find_warnings
from bench.errors import UserError
from bench.machine.identity import describe_instruction_sets, name_processor
from bench.report.words import describe
from bench.report.words.formatting import one_line
from bench.report.words.titles import make_title
from bench.results import csv_files
from bench.results.environment_cell import latest_environment
from bench.statistics.table_values import distinct_text, model_label
from bench.study import load_parts


@dataclass(frozen=True, kw_only=True)
class ReportedComparison(ComparisonResults):
    """The results of a comparison, with the words under which a report shows them."""

    beside: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # side files' tables, by kind
    path: Path | None = None  # the results file, if it was read from one
    distinction: str = ""  # what distinguishes it from others shown under the same title

    @cached_property
    def title(self) -> str:
        """What it is called: its model, and the settings that differ from the defaults."""
        return ", ".join(filter(None, [make_title(self.rows, self.label), self.distinction]))

    @cached_property
    def warnings(self) -> list[SteadinessWarning]:
        """Warnings: why its results are less trustworthy than their intervals say."""
        return find_warnings(self.rows)

    @cached_property
    def study(self) -> str:
        """The study it was made for, which is also the folder of its file."""
        return one_line(distinct_text(self.rows, "study"))

    @property
    def anchor(self) -> str:
        """The anchor of its section on a page: its file's name, which is unique within a study."""
        return self.stem if self.study == "bench" else f"{self.study}-{self.stem}"

    @cached_property
    def model(self) -> str:
        """The model's name."""
        return one_line(distinct_text(self.rows, "model"))

    @cached_property
    def label(self) -> str:
        """The model and how much of it was kept, such as `bert-large, 6 of 24 layers`."""
        size = one_line(distinct_text(self.rows, "size"))
        return model_label(self.model, size, self.whole("layers"), self.whole("published_layers"))

    def whole(self, column: str) -> int | None:
        """A whole number, equal in all rows; None where it is blank, or the file is older than the column."""
        known = self.rows[column].dropna() if column in self.rows else pd.Series(dtype=object)
        return None if known.empty else int(known.iloc[0])

    @cached_property
    def measured_at(self) -> str:
        """When its last launch began, in ISO 8601, UTC."""
        return str(self.rows["started_at"].max())

    @cached_property
    def workload(self) -> str:
        """What was trained, short: what distinguishes the comparisons of a panel."""
        return one_line(", ".join(filter(None, describe.workload_parts(self.rows).values())))

    @cached_property
    def workload_parts(self) -> dict[str, str]:
        """The parts of the workload as the reference has it: another backend may have its own attention."""
        return describe.workload_parts(describe.of_reference(self.rows))

    @property
    def workload_key(self) -> tuple[str, ...]:
        """Equal for comparisons of the same model, cut alike, and the same workload of the reference."""
        return (self.label, *self.workload_parts.values())

    @cached_property
    def hardware(self) -> str:
        """Device, ranks and threads in words."""
        return describe.hardware(self.rows)

    @cached_property
    def panel(self) -> str:
        """The heading of the comparisons that it may be shown with: machine, and the rule of batches."""
        rule = f"; {describe.largest_batch_rule(self.rows)}" if self.at_largest else ""
        return f"{self.hardware}{rule}"


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Every comparison of a folder."""

    comparisons: Sequence[ReportedComparison]  # in the order of their files
    refused: Sequence[str] = ()  # a sentence for each file that could not be read

    @cached_property
    def controlled(self) -> list[ReportedComparison]:
        """The comparisons whose speed-ups are results."""
        return [comparison for comparison in self.comparisons if not comparison.uncontrolled]

    @cached_property
    def panels(self) -> dict[str, list[ReportedComparison]]:
        """The controlled comparisons by hardware; those at the largest batches apart, and last."""
        largest_last = sorted(self.controlled, key=lambda one: one.at_largest)
        return group_by_machine(largest_last, lambda one: one.panel)


def group_by_machine(
    comparisons: Sequence[ReportedComparison], heading: Callable[[ReportedComparison], str]
) -> dict[str, list[ReportedComparison]]:
    """Comparisons by heading, those of different machines apart; headings name the machine where needed."""
    groups: dict[str, dict[tuple[str, ...], list[ReportedComparison]]] = {}
    for comparison in comparisons:
        groups.setdefault(heading(comparison), {}).setdefault(comparison.machine_key, []).append(comparison)
    named = {}
    for words, machines in groups.items():
        for number, group in enumerate(machines.values(), 1):
            unambiguous = words
            if len(machines) > 1:
                environment = latest_environment(group[0].rows)
                processor, sets = name_processor(environment), describe_instruction_sets(environment)
                unambiguous = one_line(f"{words}; machine {number}: {processor}, instruction sets {sets}")
            named[unambiguous] = group
    return named


def read_comparison(path: Path) -> ReportedComparison:
    """Read one results file, and what belongs to it; UserError if one of them is damaged."""
    rows, beside = csv_files.read(path), {}
    hashes = ["config_hash", "environment_hash"]
    for kind in (part.TABLE for part in load_parts("table").values()):
        if kind.path_of(path).exists():
            table = kind.read(kind.path_of(path))
            of_these_rows = table.merge(rows[hashes].drop_duplicates(), on=hashes)
            if not of_these_rows.empty:
                beside[kind.kind] = of_these_rows[table.columns]
    return ReportedComparison(stem=path.stem, rows=rows, beside=beside, path=path)


def collect(paths: Iterable[Path]) -> Collection:
    """Read these files; a damaged file is named and does not stop the others."""
    comparisons, refused = [], []
    for path in paths:
        try:
            comparisons.append(read_comparison(path))
        except UserError as error:
            refused.append(str(error))
    return Collection(comparisons=comparisons, refused=refused)


def with_distinct_titles(families: Sequence[Sequence[ReportedComparison]]) -> list[list[ReportedComparison]]:
    """These comparisons under different titles."""
    count = Counter(comparison.title for family in families for comparison in family)
    return [
        [
            one if count[one.title] == 1 else replace(one, distinction=f"file {one_line(one.anchor)}")
            for one in family
        ]
        for family in families
    ]
