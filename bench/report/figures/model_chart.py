"""What a chart of many models shows: each model's backends as ratios over the reference, without drawing it.

The comparisons of one machine share a panel. Nothing here imports matplotlib.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.analysis.reference import Published
from bench.errors import UserError
from bench.report.content.collection import ReportedComparison
from bench.report.content.kinds import MODALITIES, modality_of
from bench.report.content.models import choose_backends, panels_of, showable
from bench.report.content.quantities import ENERGY, SPEEDUP, Quantity, Ratio
from bench.report.words.formatting import enumerated, one_line, plural
from bench.statistics.summary import BackendSummary
from bench.statistics.table_values import count_launches, distinct_text

_STATUS_WORDS = {"oom": "out of memory", "timeout": "timed out", "untimed": "not timed"}
"""Statuses that are not words themselves."""

_TELLING = ("precision", "attention", "trained", "checkpointing", "data", "memory limit")
"""Parts of a workload that stand at a model's name where they differ between the models of a chart."""


_OWN = ("task", "batch", "length", "precision")
"""Parts of a workload of which the caption says whether they are each model's own."""


@dataclass(frozen=True)
class ModelBar:
    """One backend of one model."""

    backend: str
    ratio: Ratio | None  # None where there is no number
    reason: str = ""  # then why, in a word or a few: a status, or what forbids the number
    message: str = ""  # then what the results say of it


def hardware_of(mark: Published) -> str:
    """On which hardware others measured, and in which precision."""
    return f"{mark.hardware}, {mark.precision or 'precision not stated'}"


@dataclass(frozen=True, kw_only=True)
class ModelLine:
    """One model of a chart."""

    name: str
    detail: str  # what was left out of the name, or what tells it from another line with it; may be empty
    modality: str  # of `MODALITIES`
    bars: Sequence[ModelBar]  # one for each backend of the chart, in its order
    best: tuple[str, Ratio] | None  # the fastest PyTorch and its figure; None if it is not known
    published: Sequence[Published]
    comparison: ReportedComparison

    @property
    def label(self) -> str:
        """Name and detail."""
        return f"{self.name}, {self.detail}" if self.detail else self.name


@dataclass(frozen=True, kw_only=True)
class ModelChart:
    """A whole chart."""

    quantity: Quantity
    backends: Sequence[str]  # the bars of each model
    panels: Mapping[str, Sequence[ModelLine]]  # models by machine and reference; at least one
    left_out: Sequence[str] = ()  # a sentence for each comparison that was asked for and cannot be shown

    @cached_property
    def lines(self) -> list[ModelLine]:
        """The models of all panels."""
        return [line for lines in self.panels.values() for line in lines]

    @cached_property
    def reference(self) -> str:
        """What the ratios are over, in words."""
        return " or ".join(dict.fromkeys(one_line(line.comparison.reference) for line in self.lines))

    @cached_property
    def sources(self) -> list[str]:
        """The hardware of the published figures that the chart has."""
        return list(dict.fromkeys(hardware_of(mark) for line in self.lines for mark in line.published))


def model_chart(
    comparisons: Sequence[ReportedComparison], quantity: Quantity = SPEEDUP, *, backends: Sequence[str] = ()
) -> ModelChart:
    """The chart with a line for each of these comparisons, those of different machines apart.

    It has the bars of these backends; without any of the usual ones, or else of all but the reference.

    Raises:
        UserError: no comparison can be shown, or a backend is in none of them.
    """
    chosen, left_out = showable(comparisons, as_speedup=quantity is SPEEDUP)
    names = choose_backends(chosen, backends)
    panels = {heading: _lines(group, quantity, names) for heading, group in panels_of(chosen).items()}
    chart = ModelChart(quantity=quantity, backends=names, panels=panels, left_out=left_out)
    if not any(bar.ratio for line in chart.lines for bar in line.bars) and quantity is ENERGY:
        raise UserError(
            "none of these comparisons knows its energy",
            "it is measured on GPUs that count it (docs/gpu.md); draw --of speedup or memory instead",
        )
    return chart


def _lines(
    group: Sequence[ReportedComparison], quantity: Quantity, backends: Sequence[str]
) -> list[ModelLine]:
    """Grouped by modality; the fastest first, by the first backend, whatever the chart shows of them."""
    lines = [
        ModelLine(
            name=comparison.model,
            detail=detail,
            modality=modality_of(comparison.model, distinct_text(comparison.rows, "task")),
            bars=[_bar(comparison, name, quantity) for name in backends],
            best=_best(comparison, quantity),
            published=[
                mark for mark in comparison.published if mark.backend in backends and quantity is SPEEDUP
            ],
            comparison=comparison,
        )
        for comparison, detail in zip(group, _details(group), strict=True)
    ]

    def key(line: ModelLine) -> tuple[int, list[tuple[bool, float]], str]:
        ratios = [_bar(line.comparison, name, SPEEDUP).ratio for name in backends]
        speeds = [(speed is None, -speed.value if speed else 0.0) for speed in ratios]
        return MODALITIES.index(line.modality), speeds, line.label

    return sorted(lines, key=key)


def _details(group: Sequence[ReportedComparison]) -> list[str]:
    """What stands behind each model's name: what its label says, and what tells it from the others."""
    parts = [comparison.workload_parts for comparison in group]
    telling = {name for name in _TELLING if len({workload[name] for workload in parts}) > 1}
    details = []
    for comparison, own_parts in zip(group, parts, strict=True):
        same = [other for other in group if other.label == comparison.label]
        differing = {name for name in own_parts if len({other.workload_parts[name] for other in same}) > 1}
        words = [comparison.label.removeprefix(comparison.model).removeprefix(", ")]
        words += [own_parts[name] for name in own_parts if name in (telling | differing) - {"size"}]
        details.append(one_line(", ".join(filter(None, [*words, *comparison.own_overrides(same)]))))
    return details


def _bar(comparison: ReportedComparison, backend: str, quantity: Quantity) -> ModelBar:
    summary = comparison.of(backend)
    if summary is None:
        return ModelBar(backend, None, "not measured")
    if summary.is_reference and summary.status == "ok":
        return ModelBar(backend, Ratio(value=1.0))
    if summary.status != "ok" or summary.speedup is None:  # what forbids a speed-up forbids every other ratio
        return ModelBar(backend, None, _short_reason(comparison, summary), one_line(summary.message))
    ratio = quantity.ratio(comparison, summary)
    return ModelBar(backend, ratio, "" if ratio else "not known")


def _short_reason(comparison: ReportedComparison, summary: BackendSummary) -> str:
    if summary.status != "ok":
        return _STATUS_WORDS.get(summary.status, summary.status)
    base = comparison.base
    if base is None:
        return f"no {comparison.reference} to compare with"
    if base.status != "ok":
        return f"{comparison.reference}: {_STATUS_WORDS.get(base.status, base.status)}"
    return one_line(summary.no_speedup)


def _best(comparison: ReportedComparison, quantity: Quantity) -> tuple[str, Ratio] | None:
    """The fastest PyTorch of the comparison, whatever the quantity: the one that a user would take."""
    best = comparison.best_pytorch
    if best is None:
        return None
    if best.is_reference:
        return best.backend, Ratio(value=1.0)
    ratio = quantity.ratio(comparison, best) if best.speedup else None
    return None if ratio is None else (best.backend, ratio)


def machine_and_workload(chart: ModelChart) -> list[str]:
    """The machine, unless headings name several; what all have in common, and what is each model's own."""
    comparisons = [line.comparison for line in chart.lines]
    machine = [f"Machine: {comparisons[0].panel}."] if len(chart.panels) == 1 else []
    parts = [comparison.workload_parts for comparison in comparisons]
    own = [name for name in _OWN if len({workload[name] for workload in parts}) > 1]
    common = [
        value
        for name, value in parts[0].items()
        if name != "size" and {workload[name] for workload in parts} == {value}
    ]
    launches = {count_launches(comparison.rows) for comparison in comparisons}
    few, many = min(launches), max(launches)
    extent = plural(many, "launch", "es") if few == many else f"{few} to {many} launches"
    own_words = f"{enumerated(own)} {'are' if len(own) > 1 else 'is'} each model's own" if own else ""
    workload = [one_line(", ".join(filter(None, common))), own_words, extent]
    return [*machine, f"Workload: {'; '.join(filter(None, workload))}."]
