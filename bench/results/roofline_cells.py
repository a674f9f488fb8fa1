"""A row's cells about work per second: the model's, that of matrix products, and the share of the limit."""

from typing import Any

from bench.results import arithmetic
from bench.results.records import Record, Roofline, Shape, TimedLibrary

RATE_COLUMNS = {"torch": "torch_matmul_flops_per_s", "onnxruntime": "ort_matmul_flops_per_s"}
"""By library, the column of its rate at the workload's shapes."""


def roofline_cells(record: Record, steps: int, seconds: float) -> dict[str, Any]:
    """The cells of a block of so many steps and seconds; blank is what is unknown.

    A limit that the block itself exceeds was measured too low, as when others had the cores; it is blank.
    """
    work, roofline = record.workload, record.roofline
    cells: dict[str, Any] = _rates_of_libraries(roofline, record.stack)
    rates = [rate for library in roofline.libraries for rate in rates_of_shapes(library).values()]
    limit = max(rates, default=None)  # of all ranks together, where shape and library make it highest
    if roofline.counted:
        ranks_work = arithmetic.model_flops(roofline.counted, work.micro_batch)
        per_step = ranks_work * work.grad_accum * work.world_size
        done = arithmetic.rate(per_step * steps, seconds)
        cells |= {"model_flops_per_step": per_step, "model_flops_per_s": done}
        if roofline.layers_flops is not None:
            share = arithmetic.ratio(roofline.layers_flops, roofline.counted[0][1])
            cells["layers_flops_share"] = share
            if work.size != "mini" and work.layers == work.published_layers:
                cells["published_layers_flops_share"] = share
        if roofline.published_flops is not None:
            of_all, of_layers = roofline.published_flops
            cells["published_layers_flops_share"] = arithmetic.ratio(of_layers, of_all)
        if limit is not None and done > limit:
            return cells
        if limit is not None:
            cells["roofline_share"] = arithmetic.ratio(done, limit)
    return cells | {"limit_flops_per_s": limit}


def rates_of_shapes(library: TimedLibrary) -> dict[Shape, float]:
    """FLOP/s of all ranks together at each shape that every rank has timed."""
    ranks = [
        {product.shape: arithmetic.rate(product.flops, product.seconds) for product in products}
        for products in library.ranks
    ]
    return {
        shape: sum(rank[shape] for rank in ranks)
        for shape in ranks[0]
        if all(shape in rank for rank in ranks)
    }


def rate_of_workload(roofline: Roofline, library: TimedLibrary) -> float | None:
    """FLOP/s at which the workload's products would be done, one shape after the other.

    None if the workload's shapes are unknown, or one of them could not be timed.
    """
    rates = rates_of_shapes(library)
    if not roofline.products or any(product.shape not in rates for product in roofline.products):
        return None
    return arithmetic.combined_rate([(product.flops, rates[product.shape]) for product in roofline.products])


def _rates_of_libraries(roofline: Roofline, stack: str) -> dict[str, Any]:
    """The rate of every library: of the row's own stack; of one that is not in it, of another stack."""
    cells: dict[str, Any] = {}
    for library in sorted(roofline.libraries, key=lambda library: library.stack != stack):
        column = RATE_COLUMNS.get(library.library)
        if column is not None and column not in cells:
            cells[column] = rate_of_workload(roofline, library)
    return cells
