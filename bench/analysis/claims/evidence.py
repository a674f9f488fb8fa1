"""What a comparison shows about a claim: whether it holds there, and the numbers that this rests on."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.analysis.comparison_results import ComparisonResults
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary


@dataclass(frozen=True, kw_only=True)
class ClaimAnswer:
    """One comparison's answer to a claim; each kind of evidence is a class of its own."""

    holds: bool | None  # whether the claim holds there; None if the interval allows either
    comparison: ComparisonResults  # the one that answers


@dataclass(frozen=True, kw_only=True)
class OverReference(ClaimAnswer):
    """The speed-up of a backend over the reference of its comparison."""

    backend: BackendSummary
    speedup: Speedup


@dataclass(frozen=True, kw_only=True)
class OverBestPyTorch(ClaimAnswer):
    """The speed-up of a backend over the fastest PyTorch row of its comparison."""

    backend: BackendSummary
    speedup: Speedup


@dataclass(frozen=True, kw_only=True)
class ChoiceSwapped(ClaimAnswer):
    """The speed-up of a backend over another of the same comparison that differs in one choice."""

    before: str
    after: str
    speedup: Speedup


@dataclass(frozen=True, kw_only=True)
class ColumnChanged(ClaimAnswer):
    """The reference backend's throughput over that in `other`, a comparison that differs in one column."""

    other: ComparisonResults
    column: str
    value: str
    other_value: str
    ratio: Speedup


@dataclass(frozen=True, kw_only=True)
class Checkpointing(ClaimAnswer):
    """The reference backend's throughput with gradient checkpointing over that in `without`."""

    without: ComparisonResults
    ratio: Speedup


@dataclass(frozen=True, kw_only=True)
class LargestBatches(ClaimAnswer):
    """The largest micro-batches of pytorch and ortmodule, and whether the search can tell them apart."""

    pytorch: int
    ortmodule: int
    distinguishable: bool


@dataclass(frozen=True, kw_only=True)
class PeakMemory(ClaimAnswer):
    """Peak memory without and with what the claim is about, in MiB."""

    before_mib: float
    after_mib: float


@dataclass(frozen=True, kw_only=True)
class StateBytes(ClaimAnswer):
    """Bytes of optimizer state for each trained parameter."""

    backend: str
    bytes_per_parameter: float


@dataclass(frozen=True, kw_only=True)
class WeightBytes(ClaimAnswer):
    """Bytes of all copies of the weights for each parameter, in a precision of 16 bits."""

    backend: str
    precision: str
    bytes_per_parameter: float


@dataclass(frozen=True, kw_only=True)
class StateShared(ClaimAnswer):
    """Optimizer state of a rank under ZeRO-1 as a share of that under DDP."""

    whole: str
    shared: str
    share: float
    ranks: int


def less_memory(
    comparison: ComparisonResults, before: float | None, after: float | None
) -> Iterator[PeakMemory]:
    """Whether the peak, in MiB, became smaller; no answer where one is not known."""
    if before is not None and after is not None:
        yield PeakMemory(holds=after < before, comparison=comparison, before_mib=before, after_mib=after)
