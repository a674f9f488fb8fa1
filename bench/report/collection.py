"""All results of a folder, each file read and summarised once; what every table and figure starts from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from bench.analysis import attribution, steadiness
from bench.analysis.attribution import Attribution, Fairness
from bench.analysis.summary import BackendSummary, summarise
from bench.analysis.throughput import stopped_by_width
from bench.errors import UserError
from bench.report import text
from bench.results import csv_files

FAIRNESS = "experiment=fairness"
"""In the name of the comparisons that leave settings alone on purpose."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One results file."""

    stem: str
    rows: pd.DataFrame

    @cached_property
    def summaries(self) -> list[BackendSummary]:
        """One line per backend, the reference first."""
        return summarise(self.rows)

    @cached_property
    def others(self) -> list[BackendSummary]:
        """All but the reference."""
        return [one for one in self.summaries if not one.is_reference]

    @cached_property
    def model(self) -> str:
        """The model's name."""
        return text.one_line(text.distinct(self.rows, "model"))

    @cached_property
    def reference(self) -> str:
        """The backend that speed-ups are measured against."""
        return text.distinct(self.rows, "reference")

    @cached_property
    def hardware(self) -> str:
        """Device, ranks and threads in words."""
        return text.hardware(self.rows)

    @cached_property
    def at_largest(self) -> bool:
        """Whether each backend was measured at its own largest batch: a result of another kind."""
        return text.at_largest(self.rows)

    @cached_property
    def panel(self) -> str:
        """The heading of those that this one may be shown with: hardware, and the rule of batches."""
        rule = f"; {text.largest_batch(self.rows)}" if self.at_largest else ""
        return f"{self.hardware}{rule}"

    @cached_property
    def workload(self) -> str:
        """What was trained, short: what tells the comparisons of a panel apart."""
        return text.one_line(text.short_workload(self.rows))

    @cached_property
    def command(self) -> str:
        """That makes it again; empty if the file does not say."""
        return text.distinct(self.rows, "command")

    @property
    def uncontrolled(self) -> bool:
        """Whether something was left alone on purpose, so that its speed-ups are no result."""
        rows = self.rows
        held = (rows["cores_per_rank"] <= rows["threads_per_rank"]).all() and (
            rows["allocator"] != "system"
        ).all()
        return not held

    def of(self, backend: str) -> BackendSummary | None:
        """The summary of one backend."""
        return next((one for one in self.summaries if one.backend == backend), None)

    def peak_mib(self, summary: BackendSummary) -> float | None:
        """The peak that counts: the device's where there is one."""
        return summary.host_peak_mib if self.on_cpu else summary.device_peak_mib

    @cached_property
    def warnings(self) -> list[steadiness.SteadinessWarning]:
        """What makes it less trustworthy than its intervals say."""
        return steadiness.find_warnings(self.rows)

    @cached_property
    def on_cpu(self) -> bool:
        """Whether it ran on a CPU."""
        return text.distinct(self.rows, "device") == "cpu"

    @cached_property
    def seq_len(self) -> int | None:
        """Positions of a sample; None where it has none."""
        known = self.rows["seq_len"].dropna()
        return None if known.empty else int(known.iloc[0])

    @cached_property
    def attribution(self) -> Attribution | None:
        """The speed-up of the backend that changes most, divided among its choices."""
        start = self.of(self.reference)
        if start is None:
            return None
        stopped = stopped_by_width(self.rows)
        by_changes = sorted(self.others, key=lambda one: -len(attribution.changed(start, one)))
        for one in by_changes:
            if len(attribution.changed(start, one)) < 2:
                return None
            if found := attribution.attribute(self.summaries, one.backend, stopped=stopped):
                return found
        return None


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Every comparison of a folder, and what could not be read."""

    comparisons: Sequence[Comparison]
    refused: Sequence[str] = ()

    @cached_property
    def controlled(self) -> list[Comparison]:
        """Those whose speed-ups are results."""
        return [one for one in self.comparisons if not one.uncontrolled]

    @cached_property
    def at_equal(self) -> list[Comparison]:
        """Those of them in which all backends have the same batch."""
        return [one for one in self.controlled if not one.at_largest]

    @cached_property
    def at_largest(self) -> list[Comparison]:
        """Those in which each backend has its own largest one."""
        return [one for one in self.controlled if one.at_largest]

    @cached_property
    def panels(self) -> dict[str, list[Comparison]]:
        """The controlled comparisons by hardware; those at the largest batches apart, and last."""
        found: dict[str, list[Comparison]] = {}
        for one in [*self.at_equal, *self.at_largest]:
            found.setdefault(one.panel, []).append(one)
        return found

    def of_fairness(self, label: str) -> list[Comparison]:
        """The comparisons of one fairness experiment."""
        return [one for one in self.comparisons if FAIRNESS in one.stem and _label(one) == label]

    @cached_property
    def fairness(self) -> dict[str, Fairness]:
        """By the label of the workload: what an uncontrolled harness would print, divided."""
        found = {}
        labels = dict.fromkeys(_label(one) for one in self.comparisons if FAIRNESS in one.stem)
        for label in labels:
            group = self.of_fairness(label)
            for backend in dict.fromkeys(other.backend for one in group for other in one.others):
                divided = attribution.fairness([one.rows for one in group], backend)
                if divided is not None:
                    found[label] = divided
        return found


def _label(one: Comparison) -> str:
    return f"{one.model}, {one.workload}"


def collect(paths: Iterable[Path]) -> Collection:
    """Read these files; one that is damaged is named and stops no other."""
    comparisons, refused = [], []
    for path in paths:
        try:
            comparisons.append(Comparison(stem=path.stem, rows=csv_files.read(path)))
        except UserError as error:
            refused.append(str(error))
    return Collection(comparisons=comparisons, refused=refused)
