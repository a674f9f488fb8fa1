"""What ranks are asked for: the work of a step, and how fast they multiply."""

from typing import ClassVar

from bench.launch.messages import Answer, Request
from bench.studies.limit.found import Product, Roofline, Shape

RANKS = "bench.studies.limit.ranks"


class FlopsCounted(Answer, frozen=True, kw_only=True):
    """The work of a step was counted, by rank 0 alone."""

    roofline: Roofline = Roofline()  # without the device's rates


class ProductsTimed(Answer, frozen=True, kw_only=True):
    """This rank's quickest matrix products by its engine."""

    products: list[Product]  # of every shape that could be multiplied
    absent: list[str]  # why others could not


class CountFlops(Request[FlopsCounted], frozen=True, tag="count_flops"):
    """Count the work of a step; the last request of its launch that needs the model."""

    answered_by: ClassVar[str] = RANKS


class TimeProducts(Request[ProductsTimed], frozen=True, tag="time_products"):
    """Time matrix products of these shapes, and of large squares, all ranks at a time."""

    answered_by: ClassVar[str] = RANKS
    shapes: list[Shape]
