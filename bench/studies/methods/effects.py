"""What each method of training saves and costs: `experiment=methods`, one backend for each method."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis.comparison_results import SAME_PEAK, ComparisonResults
from bench.statistics.comparability import CHOICES
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary

ORDER = ("optimizer", *(choice for choice in CHOICES if choice != "optimizer"))
"""The choices of a backend, in the order in which methods are shown."""

BRING_A_LIBRARY = ("adamw_8bit_bitsandbytes", "adamw_8bit_torchao", "adamw_4bit_torchao")
"""Optimizers whose library is loaded after the memory of all others was read, so that a peak contains it."""

SAVES, COSTS, SAME = "saves", "costs", "same"  # what a method does to the peak of memory


@dataclass(frozen=True, kw_only=True)
class ChangedChoice:
    """One choice of a backend that the reference has otherwise."""

    choice: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Method:
    """One backend of a comparison of methods."""

    backend: str
    changes: Sequence[ChangedChoice]  # what it has otherwise than the reference, at least one thing
    status: str  # of the backend; only with `ok` there are figures
    message: str  # why it has none, or what else is to be said
    speedup: Speedup | None  # over the reference; None if there is none
    verdict: str | None  # of that
    memory_mib: float | None  # its peak
    memory_ratio: float | None  # of that to the reference's
    state_bytes: float | None  # of the optimizer, for each trained parameter
    loss_difference: float | None  # the largest relative one of the parity steps

    @property
    def effect_on_memory(self) -> str | None:
        """One of `SAVES`, `COSTS` and `SAME`; None if the peak is not known."""
        if self.memory_ratio is None:
            return None
        if abs(self.memory_ratio - 1) <= SAME_PEAK:
            return SAME
        return SAVES if self.memory_ratio < 1 else COSTS


@dataclass(frozen=True, kw_only=True)
class MethodsStudy:
    """What a comparison of methods found."""

    reference: str  # the baseline's name
    reference_mib: float | None  # its peak; None if it is not known
    peak_column: str  # what its peaks are of
    reference_state_bytes: float | None  # of its optimizer, for each trained parameter
    methods: Sequence[Method]  # those that change one thing first, by what that is
    # the names of the backends, the baseline among them, that no other beats in speed and memory at the same
    # time; from the fastest to the smallest
    front: Sequence[str]

    @property
    def measured(self) -> Sequence[Method]:
        """The methods with a speed-up and a peak of memory."""
        return [method for method in self.methods if method.speedup and method.memory_ratio]


def find_methods(comparison: ComparisonResults) -> MethodsStudy | None:
    """What each backend of a comparison does to speed and memory; None if its reference was not measured."""
    base = comparison.base
    if base is None or base.status != "ok":
        return None
    methods = [_method(comparison, other, base) for other in comparison.others]
    methods.sort(
        key=lambda method: (
            len(method.changes),
            [ORDER.index(change.choice) for change in method.changes],
            method.backend,
        )
    )
    # The Pareto front of speed and memory, by their point estimates.
    points = [(base.backend, 1.0, 1.0)]
    for method in methods:
        if method.speedup and method.memory_ratio:
            points.append((method.backend, method.speedup.ratio, method.memory_ratio))
    front, least = [], math.inf
    for name, _, memory in sorted(points, key=lambda point: (-point[1], point[2])):
        if memory < least:
            front.append(name)
            least = memory
    return MethodsStudy(
        reference=base.backend,
        reference_mib=base.peak_mib,
        peak_column=comparison.peak_column,
        reference_state_bytes=_state_bytes(comparison, base),
        methods=methods,
        front=front,
    )


def _method(comparison: ComparisonResults, summary: BackendSummary, base: BackendSummary) -> Method:
    changes = [
        ChangedChoice(choice=choice, before=getattr(base, choice), after=getattr(summary, choice))
        for choice in ORDER
        if getattr(base, choice) != getattr(summary, choice)
    ]
    mib, base_mib = summary.peak_mib, base.peak_mib
    return Method(
        backend=summary.backend,
        changes=changes,
        status=summary.status,
        message=summary.message,
        speedup=summary.speedup,
        verdict=summary.verdict,
        memory_mib=mib,
        memory_ratio=mib / base_mib if mib and base_mib else None,
        state_bytes=_state_bytes(comparison, summary),
        loss_difference=summary.loss_difference,
    )


def _state_bytes(comparison: ComparisonResults, summary: BackendSummary) -> float | None:
    parameters = comparison.rows["trainable_parameters"].dropna()
    if summary.optimizer_state_bytes is None or parameters.empty:
        return None
    return summary.optimizer_state_bytes / float(parameters.max())
