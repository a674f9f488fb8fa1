"""Tests of claims about memory: the largest batch, bytes of weights and of optimizers' states."""

from collections.abc import Iterator

from bench.analysis.claims.evidence import (
    ClaimAnswer,
    LargestBatches,
    StateBytes,
    StateShared,
    WeightBytes,
    less_memory,
)
from bench.analysis.claims.speedups import ClaimTest, Comparisons, pairs_differing_in, swap
from bench.config.choices import IN_16_BITS_ALONE, SIXTEEN_BITS
from bench.results import arithmetic
from bench.results.prediction import FP32_BYTES

STATE_TOLERANCE = 0.02
"""By how much, as a share, bytes of optimizer state per parameter may differ from what a claim says."""

LOW_BIT_TOLERANCE = 0.1
"""`STATE_TOLERANCE` of claims that leave out the scales of blocks, or say "little more"."""

IN_BOTH_FORMATS = 1.5
"""Bytes of weights in 16 and in 32 bits over those in 32 bits alone."""


def larger_batch(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """ORT's largest micro-batch against PyTorch's; a lead within the search's resolution is none."""
    for comparison in comparisons:
        if comparison.uncontrolled or not comparison.at_largest:
            continue
        pytorch, ortmodule = (
            side and side.micro_batch for side in (comparison.of("pytorch"), comparison.of("ortmodule"))
        )
        if not pytorch or not ortmodule:
            continue
        close = 0 < ortmodule - pytorch <= arithmetic.search_resolution(pytorch)
        yield LargestBatches(
            holds=None if close else ortmodule > pytorch,
            comparison=comparison,
            pytorch=pytorch,
            ortmodule=ortmodule,
            distinguishable=not close,
        )


def state_bytes(backend: str, bytes_per_parameter: float, tolerance: float = STATE_TOLERANCE) -> ClaimTest:
    """Does the backend hold so many bytes of optimizer state for each trained parameter?"""

    def test(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
        for comparison in comparisons:
            summary, parameters = comparison.of(backend), comparison.rows["trainable_parameters"].dropna()
            size = summary.optimizer_state_bytes if summary else None
            if comparison.uncontrolled or size is None or parameters.empty:
                continue
            each = size / int(parameters.max())
            close = abs(each / bytes_per_parameter - 1) <= tolerance
            yield StateBytes(holds=close, comparison=comparison, backend=backend, bytes_per_parameter=each)

    return test


def state_is_shared(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """ZeRO-1's state per rank against DDP's, for backends that differ in the sharding alone.

    Also where threads or allocator were left alone: they change speed, and the latter peaks, but no state.
    """
    for comparison in comparisons:
        ranks = int(comparison.rows["world_size"].dropna().max())
        for whole, shared in pairs_differing_in(comparison, "sharding", swap("ddp", "zero1")):
            whole_bytes, shared_bytes = whole.optimizer_state_bytes, shared.optimizer_state_bytes
            if ranks < 2 or whole_bytes is None or shared_bytes is None:
                continue
            share = shared_bytes / (whole_bytes or 1)
            yield StateShared(
                holds=abs(share * ranks - 1) <= STATE_TOLERANCE,
                comparison=comparison,
                whole=whole.backend,
                shared=shared.backend,
                share=share,
                ranks=ranks,
            )
            if not comparison.at_largest:  # there each fills what it may
                yield from less_memory(comparison, comparison.peak_mib(whole), comparison.peak_mib(shared))


def weights_kept_twice(comparisons: Comparisons) -> Iterator[ClaimAnswer]:
    """In mixed precision, 1.5 times the bytes of weights in fp32, where nothing is divided among ranks."""
    for comparison in comparisons:
        parameters, ranks = (comparison.rows[column].dropna() for column in ("parameters", "world_size"))
        for mixed in comparison.summaries:
            whole = mixed.sharding == "ddp" or (mixed.sharding in IN_16_BITS_ALONE and set(ranks) == {1})
            rows = comparison.rows[comparison.rows["backend"] == mixed.backend]
            size = rows["weights_bytes"].dropna()
            if comparison.uncontrolled or mixed.precision not in SIXTEEN_BITS or not whole or size.empty:
                continue
            each = float(size.max()) / float(parameters.max())
            yield WeightBytes(
                holds=abs(each / FP32_BYTES / IN_BOTH_FORMATS - 1) <= STATE_TOLERANCE,
                comparison=comparison,
                backend=mixed.backend,
                precision=mixed.precision,
                bytes_per_parameter=each,
            )
