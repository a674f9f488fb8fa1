"""What each method of training saves and costs: `experiment=methods`, one backend for each method."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.analysis.comparison_results import SAME_PEAK, ComparisonResults
from bench.statistics.comparability import CHOICES
from bench.statistics.summary import BackendSummary

ORDER = ("optimizer", *(choice for choice in CHOICES if choice != "optimizer"))
"""The choices of a backend, in the order in which methods are shown."""

BRING_A_LIBRARY = ("adamw_8bit_bitsandbytes", "adamw_8bit_torchao", "adamw_4bit_torchao")
"""Optimizers whose library is loaded after the memory of all others was read, so that a peak contains it."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One backend of a comparison of methods."""

    summary: BackendSummary
    changes: Mapping[str, str]  # its values where its choices differ from the reference's: at least one
    memory_ratio: float | None  # of its peak to the reference's
    state_bytes: float | None  # of the optimizer, for each trained parameter

    @property
    def saves_memory(self) -> bool:
        """Whether its peak is known to be below the reference's."""
        return self.memory_ratio is not None and 1 - self.memory_ratio > SAME_PEAK


@dataclass(frozen=True, kw_only=True)
class MethodsStudy:
    """What a comparison of methods found."""

    base: BackendSummary  # the baseline
    state_bytes: float | None  # of its optimizer, for each trained parameter
    methods: Sequence[Method]  # those with a single change first, ordered by that change
    # the names of the backends, the baseline among them, that no other beats in speed and memory at the same
    # time; from the fastest to the smallest
    front: Sequence[str]

    @property
    def measured(self) -> Sequence[Method]:
        """The methods with a speed-up and a peak of memory."""
        return [method for method in self.methods if method.summary.speedup and method.memory_ratio]


def find_methods(comparison: ComparisonResults) -> MethodsStudy | None:
    """What each backend of a comparison does to speed and memory; None if its reference was not measured."""
    base = comparison.base
    if base is None or base.status != "ok":
        return None
    methods = [_method(comparison, other, base) for other in comparison.others]
    methods.sort(
        key=lambda method: (len(method.changes), [*map(ORDER.index, method.changes)], method.summary.backend)
    )
    # The Pareto front of speed and memory, by their point estimates.
    points = [(base.backend, 1.0, 1.0)]
    for method in methods:
        if method.summary.speedup and method.memory_ratio:
            points.append((method.summary.backend, method.summary.speedup.ratio, method.memory_ratio))
    front, least = [], math.inf
    for name, _, memory in sorted(points, key=lambda point: (-point[1], point[2])):
        if memory < least:
            front.append(name)
            least = memory
    return MethodsStudy(base=base, state_bytes=_state_bytes(comparison, base), methods=methods, front=front)


def _method(comparison: ComparisonResults, summary: BackendSummary, base: BackendSummary) -> Method:
    mib, base_mib = summary.peak_mib, base.peak_mib
    return Method(
        summary=summary,
        changes={
            choice: getattr(summary, choice)
            for choice in ORDER
            if getattr(base, choice) != getattr(summary, choice)
        },
        memory_ratio=mib / base_mib if mib and base_mib else None,
        state_bytes=_state_bytes(comparison, summary),
    )


def _state_bytes(comparison: ComparisonResults, summary: BackendSummary) -> float | None:
    parameters = comparison.rows["trainable_parameters"].dropna()
    if summary.optimizer_state_bytes is None or parameters.empty:
        return None
    return summary.optimizer_state_bytes / float(parameters.max())
