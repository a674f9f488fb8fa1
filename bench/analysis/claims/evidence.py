"""What a comparison shows about a claim: an answer, and the numbers that it rests on."""

from dataclasses import dataclass
from typing import TypeAlias

from bench.analysis.comparison_results import ComparisonResults
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary


@dataclass(frozen=True, kw_only=True)
class OverReference:
    """The speed-up of a backend over the reference of its comparison."""

    backend: BackendSummary
    speedup: Speedup


@dataclass(frozen=True, kw_only=True)
class OverBestPyTorch:
    """The speed-up of a backend over the fastest PyTorch row of its comparison."""

    backend: BackendSummary
    speedup: Speedup


@dataclass(frozen=True, kw_only=True)
class ChoiceSwapped:
    """The speed-up of a backend over another of the same comparison that differs in one choice."""

    before: str
    after: str
    speedup: Speedup


@dataclass(frozen=True, kw_only=True)
class ColumnChanged:
    """The reference backend's throughput over that in `other`, a comparison that differs in one column."""

    other: ComparisonResults
    column: str
    value: str
    other_value: str
    ratio: Speedup


@dataclass(frozen=True, kw_only=True)
class Checkpointing:
    """The reference backend's throughput with gradient checkpointing over that in `without`."""

    without: ComparisonResults
    ratio: Speedup


@dataclass(frozen=True, kw_only=True)
class LargestBatches:
    """The largest micro-batches of pytorch and ortmodule, and whether the search can tell them apart."""

    pytorch: int
    ortmodule: int
    distinguishable: bool


@dataclass(frozen=True, kw_only=True)
class PeakMemory:
    """Peak memory without and with what the claim is about, in MiB."""

    before_mib: float
    after_mib: float


@dataclass(frozen=True, kw_only=True)
class StateBytes:
    """Bytes of optimizer state for each trained parameter."""

    backend: str
    bytes_per_parameter: float


@dataclass(frozen=True, kw_only=True)
class WeightBytes:
    """Bytes of all copies of the weights for each parameter, in a precision of 16 bits."""

    backend: str
    precision: str
    bytes_per_parameter: float


@dataclass(frozen=True, kw_only=True)
class StateShared:
    """Optimizer state of a rank under ZeRO-1 as a share of that under DDP."""

    whole: str
    shared: str
    share: float
    ranks: int


Evidence: TypeAlias = (
    OverReference
    | OverBestPyTorch
    | ChoiceSwapped
    | ColumnChanged
    | Checkpointing
    | LargestBatches
    | PeakMemory
    | StateBytes
    | StateShared
    | WeightBytes
)


@dataclass(frozen=True, kw_only=True)
class ClaimAnswer:
    """One comparison's answer to a claim."""

    holds: bool | None  # whether the claim holds there; None if the interval allows either
    comparison: ComparisonResults  # the one that answers
    evidence: Evidence  # the numbers
