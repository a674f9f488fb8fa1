"""Times matrix products by an engine: at the workload's own shapes, and of squares as large as is useful.

Together they are the device's limit, measured and not read off a data sheet. All ranks multiply at a time,
as they do in training.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch

from bench.studies.limit.found import Product, Shape
from bench.worker.engines import TorchEngine
from bench.worker.rank.training import Training
from bench.worker.workload.precision import SIXTEEN_BITS

WIDTHS = {"cpu": (512, 1024, 2048), "cuda": (4096, 8192, 16384)}
"""Widths of the square matrices that are multiplied."""

SECONDS = {"cpu": (0.05, 0.1), "cuda": (0.1, 0.15)}
"""How long each shape is multiplied before readings count, in which a cold GPU's clock rises, and while. On
a CPU (Intel, family 6, model 167) 0.1 s more found a best rate 0.8 % higher, less than its spread of 4 %."""

READING = 0.01
"""Seconds between two readings of the clock, about, so that waiting for a GPU takes almost none of them."""


def time_products(
    training: Training, shapes: Sequence[Shape], clock: Callable[[], float] = time.perf_counter
) -> tuple[list[Product], list[str]]:
    """The engine's quickest products of large squares and of every one of `shapes`, and why some are missing.

    Every rank passes the same number of barriers, also after errors.
    """
    timer = _Timer(training, clock)
    squares = [Shape(batch=1, rows=n, inner=n, columns=n) for n in WIDTHS[training.device.type]]
    products: list[Product] = []
    failed: dict[str, list[str]] = {}  # shapes, by what went wrong
    for shape in dict.fromkeys([*squares, *shapes]):
        # A square that takes longer than the warm-up is left out: smaller ones reach the same rate.
        wanted, first = shape in shapes or timer.seconds_of(shape) <= timer.warm_up, None
        with noting(failed, shape):
            first = timer.prepare(shape) if wanted else None
        training.barrier()
        with noting(failed, shape):
            if first:
                products.append(timer.time(shape, *first))
    return products, [f"matrix products {', '.join(which)}: {words}" for words, which in failed.items()]


@contextmanager
def noting(failed: dict[str, list[str]], shape: Shape) -> Iterator[None]:
    """Note errors: no memory for matrices of this size, or no kernel."""
    try:
        yield
    except Exception as error:
        words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        failed.setdefault(words, []).append(str(shape))


def prepare_product(engine: TorchEngine, left: torch.Tensor, right: torch.Tensor) -> Callable[[], object]:
    """A function that multiplies two matrices, or two batches of them, as the engine does in training.

    Nothing is copied or allocated at a call. PyTorch has the second one transposed, as the weights of a
    Linear are: in 16 bits a CPU may be several times slower otherwise. Asked for after `wrap`, for shapes
    ([batch,] rows, inner) and ([batch,] inner, columns), on the device and in the precision of training.
    """
    if engine.library == "onnxruntime":
        from bench.studies.limit import ort_products

        return ort_products.prepare(left, right, engine.threads)
    multiply = torch.bmm if left.dim() == 3 else torch.mm
    transposed = right.mT.contiguous().mT
    result = multiply(left, transposed)
    return lambda: multiply(left, transposed, out=result)


class _Timer:
    """Times one shape after the other and knows the best rate so far."""

    def __init__(self, training: Training, clock: Callable[[], float]) -> None:
        self._training = training
        self._clock = clock
        self.warm_up, self._window = SECONDS[training.device.type]
        self._best: Product | None = None

    def prepare(self, shape: Shape) -> tuple[Shape, Callable[[int], float]]:
        """The part of the shape that is multiplied, and a function that times a number of products.

        The first of its kind makes sessions and handles, loads and chooses kernels: it is not timed.
        """
        multiplied = self._cut(shape)
        multiply = prepare_product(self._training.engine, *self._matrices(multiplied))

        def read(products: int) -> float:
            self._training.synchronize()
            begun = self._clock()
            for _ in range(products):
                multiply()
            self._training.synchronize()
            return self._clock() - begun

        read(1)
        return multiplied, read

    def time(self, shape: Shape, multiplied: Shape, read: Callable[[int], float]) -> Product:
        """The quickest reading of products of this shape.

        A reading that ends after the window does not count, since other ranks may have stopped by then. If
        not even one product fits into the window, as with fp16 on some CPUs, that product counts.
        """
        clock = self._clock
        end_of_warm_up = clock() + self.warm_up
        end = end_of_warm_up + self._window
        seconds = read(1)
        while clock() < end_of_warm_up:
            seconds = min(seconds, read(1))
        products = max(1, round(READING / seconds)) if clock() < end else 1
        quickest = products * seconds
        while clock() < end:
            seconds = read(products)
            if clock() <= end:
                quickest = min(quickest, seconds)
        product = Product(shape=shape, flops=multiplied.flops * products, seconds=quickest)
        if self._best is None or product.flops * self._best.seconds > self._best.flops * product.seconds:
            self._best = product
        return product

    def seconds_of(self, shape: Shape) -> float:
        """The seconds that one product will take, at the best rate so far; 0 if there is none."""
        return shape.flops * self._best.seconds / self._best.flops if self._best else 0.0

    def _cut(self, shape: Shape) -> Shape:
        """The shape with its longest side halved until a product takes no longer than the warm-up.

        Matrices of this size are multiplied block by block anyway, so that the rate is the same.
        """
        while self.seconds_of(shape) > self.warm_up:
            longest = max(("batch", "rows", "inner", "columns"), key=lambda side: int(getattr(shape, side)))
            if getattr(shape, longest) == 1:
                break
            shape = replace(shape, **{longest: getattr(shape, longest) // 2})
        return shape

    def _matrices(self, shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
        batch = (shape.batch,) if shape.batch > 1 else ()
        dtype = SIXTEEN_BITS.get(self._training.spec.precision.name, torch.float32)
        draw = partial(torch.randn, device=self._training.device, dtype=dtype)
        return draw(*batch, shape.rows, shape.inner), draw(*batch, shape.inner, shape.columns)
