"""What each method of training saves and costs: `experiment=methods`, one backend for each method."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.analysis import reference
from bench.analysis.attribution import FACTORS, changed_factors
from bench.analysis.comparison_results import ComparisonResults
from bench.analysis.reference import GuidedMethod
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary

NOTEWORTHY = 0.02
"""A peak within so much of the reference's, as a share of it, is the same: peaks have no interval."""

BRING_A_LIBRARY = ("adamw_8bit_bitsandbytes", "adamw_8bit_torchao", "adamw_4bit_torchao")
"""Optimizers whose library is loaded after the memory of all others was read, so that a peak contains it."""

SAVES, COSTS, SAME = "saves", "costs", "same"  # what a method does to the peak of memory
AGREES, DISAGREES = "agrees", "disagrees"  # whether what was measured is what the guide says


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
    # what the guide says, where it changes one thing alone and the guide speaks of that
    guided: GuidedMethod | None
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
        if abs(self.memory_ratio - 1) <= NOTEWORTHY:
            return SAME
        return SAVES if self.memory_ratio < 1 else COSTS

    @property
    def speed_as_guided(self) -> str | None:
        """Whether the speed is what the guide says; None if it does not say, or the interval allows both."""
        if self.guided is None or self.verdict in (None, "inconclusive"):
            return None
        return _agreement(self.guided.improves_speed, self.verdict == "faster")

    @property
    def memory_as_guided(self) -> str | None:
        """Whether the memory is what the guide says.

        None if it does not say, nothing is known, or the peak contains a library that the method brings.
        """
        brings_a_library = any(change.after in BRING_A_LIBRARY for change in self.changes)
        if self.guided is None or self.effect_on_memory is None or brings_a_library:
            return None
        return _agreement(self.guided.saves_memory, self.effect_on_memory == SAVES)


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
            [FACTORS.index(change.choice) for change in method.changes],
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
        ChangedChoice(choice=factor, before=getattr(base, factor), after=getattr(summary, factor))
        for factor in changed_factors(base, summary)
    ]
    mib, base_mib = summary.peak_mib, base.peak_mib
    return Method(
        backend=summary.backend,
        changes=changes,
        guided=_guided(changes),
        status=summary.status,
        message=summary.message,
        speedup=summary.speedup,
        verdict=summary.verdict,
        memory_mib=mib,
        memory_ratio=mib / base_mib if mib and base_mib else None,
        state_bytes=_state_bytes(comparison, summary),
        loss_difference=summary.loss_difference,
    )


def _guided(changes: Sequence[ChangedChoice]) -> GuidedMethod | None:
    """What the guide says of the only change."""
    for method in reference.read_guide() if len(changes) == 1 else ():
        if method.choice == changes[0].choice and (not method.chosen or changes[0].after in method.chosen):
            return method
    return None


def _state_bytes(comparison: ComparisonResults, summary: BackendSummary) -> float | None:
    parameters = comparison.rows["trainable_parameters"].dropna()
    if summary.optimizer_state_bytes is None or parameters.empty:
        return None
    return summary.optimizer_state_bytes / float(parameters.max())


def _agreement(guide: str, measured: bool) -> str | None:
    """Whether what was measured is what the guide says; None where that need not be so."""
    if guide not in ("yes", "no"):
        return None
    return AGREES if measured == (guide == "yes") else DISAGREES
