"""What a rank does: it counts the work of a step, and multiplies matrices."""

from bench.studies.limit.found import Roofline, Shape
from bench.studies.limit.messages import FlopsCounted, ProductsTimed
from bench.worker.rank.error_words import in_a_line
from bench.worker.rank.rank import Rank


def count_flops(rank: Rank) -> FlopsCounted:
    """The work of a step, counted by rank 0 alone on a second model; what fails is only absent."""
    from bench.studies.limit import flops

    if rank.rank != 0:
        return FlopsCounted()
    try:
        (first, *_), *_ = rank.training.steps(1)
        return FlopsCounted(roofline=flops.count_step(rank.spec, first))
    except Exception as error:  # nothing that is trained or timed depends on it
        return FlopsCounted(roofline=Roofline(absent=(f"FLOPs of a step: {in_a_line(error)}",)))


def time_products(rank: Rank, shapes: list[Shape]) -> ProductsTimed:
    """Matrix products by this rank's engine, while all ranks multiply; what fails is only absent."""
    from bench.studies.limit import products

    timed, absent = products.time_products(rank.training, shapes)
    return ProductsTimed(products=timed, absent=absent)
