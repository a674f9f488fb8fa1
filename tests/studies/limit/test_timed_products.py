"""Matrix products timed: with scripted seconds, and for real by both engines."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from bench.studies.limit import products
from bench.studies.limit.found import Product, Shape
from bench.worker import engines
from tests.support.configs import a_spec
from tests.support.fakes import FakeClock

CPU = torch.device("cpu")


def nothing() -> None:
    pass


def square(side: int) -> Shape:
    return Shape(batch=1, rows=side, inner=side, columns=side)


class Multiplying:
    """A training whose products take a scripted time: of each number of rows, or `rate` FLOP/s."""

    device = CPU
    spec = a_spec()

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], rate: float | None = None
    ) -> None:
        self.clock = FakeClock()
        self.seconds = seconds
        self.rate = rate
        self.barriers = 0
        self.first = 0.0
        self.engine = self
        monkeypatch.setattr(products, "WIDTHS", {"cpu": tuple(seconds)})
        monkeypatch.setattr(products, "prepare_product", self.prepare)

    def prepare(self, _: Any, one: torch.Tensor, other: torch.Tensor) -> Callable[[], None]:
        taken = self.seconds.get(one.shape[-2]) if self.rate is None else None
        if taken == 0:
            raise RuntimeError("CUDA out of memory")
        if taken is None:
            taken = 2 * one.numel() * other.shape[-1] / (self.rate or 8000.0)

        first = [self.first]  # more of the first product

        def multiply() -> None:
            self.clock.now += taken + (first.pop() if first else 0)

        return multiply

    def barrier(self) -> None:
        self.barriers += 1

    def synchronize(self) -> None:
        pass

    def time(self, *shapes: Shape) -> tuple[list[Product], list[str]]:
        return products.time_products(cast(Any, self), shapes, clock=self.clock)


def rates(found: list[Product]) -> dict[Shape, float]:
    return {one.shape: one.flops / one.seconds for one in found}


def test_every_shape_has_its_own_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Shape(batch=3, rows=5, inner=7, columns=2)
    found, absent = Multiplying(monkeypatch, {2: 0.002, 4: 0.008}).time(wide)
    assert rates(found) == pytest.approx(
        {square(2): 2 * 2**3 / 0.002, square(4): 2 * 4**3 / 0.008, wide: 8000.0}
    )
    assert absent == []


def test_a_first_product_that_loads_kernels_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Multiplying(monkeypatch, {2: 0.002})
    script.first = 5.0
    found, _ = script.time()
    assert rates(found) == pytest.approx({square(2): 2 * 2**3 / 0.002})


def test_what_is_too_large_for_the_memory_is_named_and_every_rank_meets_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Multiplying(monkeypatch, {2: 0.002, 4: 0, 5: 0})
    found, absent = script.time(square(3))
    assert set(rates(found)) == {square(2), square(3)}
    assert absent == ["matrix products 1x4x4x4, 1x5x5x5: RuntimeError: CUDA out of memory"]
    assert script.barriers == 4


def test_one_slow_product_is_better_than_none_and_larger_squares_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Multiplying(monkeypatch, {2: 2.0, 4: 16.0})
    found, absent = script.time()
    assert found == [Product(shape=square(2), flops=16, seconds=2.0)]
    assert absent == []
    assert script.clock.now == 100 + 2 * 2.0, "the first is not timed"
    assert script.barriers == 2


def test_of_a_shape_that_takes_very_long_a_part_is_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Multiplying(monkeypatch, {8: 0.0}, rate=100_000.0)
    long = Shape(batch=1, rows=8, inner=4096, columns=64)  # 42 s
    found, _ = script.time(long)
    assert rates(found)[long] == pytest.approx(100_000)
    assert script.clock.now < 100 + 1.0


@pytest.mark.parametrize("name", ["eager", pytest.param("ortmodule", marks=pytest.mark.ort)])
def test_an_engine_s_products_are_right_and_timed(name: str) -> None:
    engine: Any = engines.make(name)
    engine.wrap(torch.nn.Linear(2, 2), threads=1, checkpointing=False)
    for sides in ((5, 7), (3, 5, 7)):
        one, other = torch.randn(*sides), torch.randn(*sides[:-2], 7, 4)
        torch.testing.assert_close(products.prepare_product(engine, one, other)(), one @ other)
    shapes = [Shape(batch=1, rows=128, inner=64, columns=512), Shape(batch=8, rows=64, inner=32, columns=64)]
    training = SimpleNamespace(engine=engine, spec=a_spec(), device=CPU, synchronize=nothing, barrier=nothing)
    found, absent = products.time_products(cast(Any, training), shapes)
    assert absent == []
    assert set(shapes) <= {one.shape for one in found}
    assert all(rate > 0 for rate in rates(found).values()), "how large: the tests above, by their own clock"
    assert engine.library == {"eager": "torch", "ortmodule": "onnxruntime"}[name]
