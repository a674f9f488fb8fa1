"""What fake groups count and multiply: a square, and what their workload holds."""

from bench.studies.limit.found import Product, Roofline, Shape, WorkloadProduct
from bench.studies.limit.messages import CountFlops, FlopsCounted, ProductsTimed, TimeProducts
from tests.support.fakes import OF_STUDIES, FakeGroup

SQUARE = Shape(batch=1, rows=1000, inner=1000, columns=1)
PRODUCTS = (
    WorkloadProduct(shape=Shape(batch=1, rows=10, inner=10, columns=10), flops=3_000),
    WorkloadProduct(shape=Shape(batch=2, rows=5, inner=10, columns=5), flops=1_000),
)


def _count(group: FakeGroup, request: CountFlops, rank: int) -> FlopsCounted:
    counted = Roofline(counted=((4, 4_000), (8, 8_000)), products=PRODUCTS)
    return FlopsCounted() if rank else FlopsCounted(roofline=counted)


def _multiply(group: FakeGroup, request: TimeProducts, rank: int) -> ProductsTimed:
    rates = group.script.get("products", (2e6, 1e6, 0.5e6))
    shapes = zip([SQUARE, *request.shapes], rates, strict=False)
    return ProductsTimed(
        products=[Product(shape=shape, flops=rate, seconds=1.0) for shape, rate in shapes], absent=[]
    )


OF_STUDIES.update({CountFlops: _count, TimeProducts: _multiply})
