"""The cells of a block's row: the work that was done, the rates of matrix products, the limit they set."""

from collections.abc import Sequence
from typing import Any

from bench.results.records import Record
from bench.studies.limit.found import NAME, Roofline, Shape, TimedLibrary

RATE_COLUMNS = {"torch": "torch_matmul_flops_per_s", "onnxruntime": "ort_matmul_flops_per_s"}
"""By library, the column of its rate of matrix products at the workload's shapes."""


def make_cells(record: Record, steps: int, seconds: float) -> dict[str, Any]:
    """The cells of a block of `steps` steps that took `seconds`; what is unknown is blank.

    Only what was timed at the row's own precision counts.
    A limit that the block itself exceeds was measured too low, as when others had the cores; it is blank.
    """
    work, roofline = record.workload, record.found.get(NAME, Roofline())
    cells: dict[str, Any] = {}
    libraries = [library for library in roofline.libraries if library.precision == work.precision]
    # Each library's rate on the row's own stack; of one that is not in it, on another stack.
    for library in sorted(libraries, key=lambda library: library.stack != record.stack):
        column = RATE_COLUMNS.get(library.library)
        if column is not None and column not in cells:
            cells[column] = _rate_of_workload(roofline, library)
    rates = [rate for library in libraries for rate in _rates_of_shapes(library).values()]
    limit = max(rates, default=None)  # of all ranks together, where shape and library make it highest
    if roofline.counted:
        ranks_work = model_flops(roofline.counted, work.micro_batch)
        per_step = ranks_work * work.grad_accum * work.world_size
        done = per_step * steps / seconds
        cells |= {"model_flops_per_step": per_step, "model_flops_per_s": done}
        if limit is not None and done > limit:
            return cells
        if limit is not None:
            cells["roofline_share"] = done / limit
    return cells | {"limit_flops_per_s": limit}


def _rates_of_shapes(library: TimedLibrary) -> dict[Shape, float]:
    """FLOP/s of all ranks together at each shape that every rank has timed."""
    ranks = [
        {product.shape: product.flops / product.seconds for product in products} for products in library.ranks
    ]
    return {
        shape: sum(rank[shape] for rank in ranks)
        for shape in ranks[0]
        if all(shape in rank for rank in ranks)
    }


def _rate_of_workload(roofline: Roofline, library: TimedLibrary) -> float | None:
    """FLOP/s of the workload's products, one shape after the other; None if a shape is unknown or untimed."""
    rates = _rates_of_shapes(library)
    if not roofline.products or any(product.shape not in rates for product in roofline.products):
        return None
    return combined_rate([(product.flops, rates[product.shape]) for product in roofline.products])


def model_flops(counted: Sequence[tuple[int, int]], micro_batch: int) -> int:
    """FLOPs of a micro-batch from those of two others: one part grows with the samples, one does not.

    Exact, since either part is a whole number. `counted` pairs a micro-batch, in samples, with its FLOPs.
    """
    (small, small_flops), (large, large_flops) = counted
    return small_flops + (micro_batch - small) * ((large_flops - small_flops) // (large - small))


def combined_rate(parts: Sequence[tuple[float, float]]) -> float:
    """Return the rate of all parts of work together, each an amount and the rate at which it is done."""
    return sum(amount for amount, _ in parts) / sum(amount / rate for amount, rate in parts)
