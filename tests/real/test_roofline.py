"""The work of a step against closed formulas, the device's rate, and what becomes of both."""

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from bench.config.compose import compose
from bench.config.data import Data
from bench.config.model import Lora, Model
from bench.results import arithmetic
from bench.results.records import Product
from bench.setup import stacks
from bench.worker import roofline
from bench.worker.workload import feeds
from bench.worker.workload import model as models
from tests.support.configs import a_model
from tests.support.fakes import FakeClock


class Layers(torch.nn.Module):
    """Linear layers of `widths`, a sum as loss."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(*pair) for pair in pairs))

    def forward(self, x: torch.Tensor) -> Any:
        return dataclasses.make_dataclass("Output", ["loss"])(self.layers(x).sum())


def test_a_layer_whose_input_needs_no_gradient_takes_2mnk_forward_and_2mnk_backward() -> None:
    assert roofline.count(Layers(32, 64), {"x": torch.ones(8, 32)}) == 2 * 2 * 8 * 32 * 64


def test_every_further_layer_takes_4mnk_backward() -> None:
    found = roofline.count(Layers(32, 64, 16), {"x": torch.ones(8, 32)})
    assert found == 4 * 8 * 32 * 64 + 6 * 8 * 64 * 16


def test_a_convolution_is_counted() -> None:
    model = Layers(1, 1)
    model.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, kernel_size=4, stride=4))
    # 4 positions of 8 filters of 3 x 4 x 4 for each of 2 pictures; the pictures need no gradient
    assert roofline.count(model, {"x": torch.ones(2, 3, 8, 8)}) == 2 * 2 * 2 * 4 * 8 * 48


def counted(model: Model, *, micro_batch: int = 4, seq_len: int | None = 16) -> dict[str, Any]:
    """As a worker counts it."""
    spec: Any = SimpleNamespace(
        model=model,
        data=Data(name="synthetic"),
        micro_batch=micro_batch,
        seq_len=seq_len,
        grad_accum=1,
        seed=0,
    )
    real = models.build(model, attention="eager", dropout=True)
    feed = feeds.Synthetic(spec, real, rank=0, pinned=False)
    return roofline.counted(spec, feed.steps(1)[0][0])


def bert(tokens: int, length: int, *, width: int, inner: int, layers: int, words: int) -> int:
    """FLOPs of BERT's forward and backward pass; all layers' inputs need gradients."""
    projections = 4 * width * width + 2 * width * inner
    attention = 2 * length * width
    head = width * width + width * words
    return 6 * tokens * (layers * (projections + attention) + head)


def test_bert_takes_what_the_formula_says() -> None:
    found = counted(a_model())
    expected = bert(4 * 16, 16, width=64, inner=128, layers=2, words=512)
    assert found == {"counted": [(4, expected), (8, 2 * expected)], "counted_on": "shapes"}


def test_frozen_weights_have_no_gradients_to_compute() -> None:
    lora = Lora(rank=4, alpha=8.0, dropout=0.1, modules=["query", "value"])
    (_, found), _ = counted(a_model(lora=lora))["counted"]
    tokens, length, width, inner, words, rank = 4 * 16, 16, 64, 128, 512, 4
    products = 4 * width * width + 2 * width * inner
    adapters = 2 * 2 * width * rank
    attention = 2 * length * width
    head = width * width + width * words
    # Frozen: forward, and backward to the input alone; trained, and attention: both sides.
    whole = tokens * (4 * (2 * products + head) + 6 * 2 * (adapters + attention))
    # Nothing is trained before the first layer's adapters: its input needs no gradient (of three projections
    # and the first half of two adapters), nor do its keys (half of the attention's first product).
    untouched = tokens * 2 * (3 * width * width + adapters // 2 + length * width)
    assert found == whole - untouched


def test_work_that_does_not_grow_with_the_samples_is_told_from_what_does() -> None:
    assert arithmetic.model_flops(((8, 1000), (16, 1800)), 8) == 1000
    assert arithmetic.model_flops(((8, 1000), (16, 1800)), 20) == 2200
    assert arithmetic.model_flops(((8, 1000), (16, 1800)), 1) == 300


PINNED = "shapes" if stacks.own() == "ort" else "data"
"""Today's BEiT looks at its tensors."""


@pytest.mark.parametrize(
    ("name", "on"),
    [("llama-2-7b", "shapes"), ("beit-base", PINNED), ("mixtral-8x7b", "data"), ("vit-base", "shapes")],
)
def test_models_that_look_at_their_tensors_are_counted_too(name: str, on: str) -> None:
    config = compose(["device=cpu", f"model={name}", "model.size=mini", "backend=[pytorch]", "micro_batch=2"])
    found = counted(config.model, micro_batch=2, seq_len=config.seq_len)
    (_, once), (_, twice) = found["counted"]
    assert twice == pytest.approx(2 * once, rel=0.02)
    if on == "shapes":  # as today's mixtures of experts can be counted, too
        assert found["counted_on"] == "shapes"


def test_what_cannot_be_counted_by_shapes_and_is_too_large_to_run_is_said() -> None:
    huge = a_model(architecture="no-such", parameters=roofline.MOST_BUILT + 1)
    with pytest.raises(ValueError, match="m is too large to be counted by more than its shapes"):
        roofline.counted(cast(Any, SimpleNamespace(model=huge, micro_batch=1)), {})


# The device's rate


class Multiplying:
    """Products that take a scripted time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float]) -> None:
        self.clock = FakeClock()
        self.seconds = seconds
        self.barriers = 0
        monkeypatch.setattr(torch.nn.functional, "linear", self.multiply)
        monkeypatch.setattr(roofline, "WIDTHS", {"cpu": tuple(seconds)})

    def multiply(self, one: torch.Tensor, other: torch.Tensor) -> None:
        taken = self.seconds[len(one)]
        if taken == 0:
            raise RuntimeError("CUDA out of memory")
        self.clock.now += taken

    def barrier(self) -> None:
        self.barriers += 1

    def product(self) -> Product:
        return roofline.product(
            torch.device("cpu"), "fp32", synchronize=lambda: None, barrier=self.barrier, clock=self.clock
        )


def test_the_quickest_width_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Multiplying(monkeypatch, {2: 0.002, 4: 0.008, 8: 0.128}).product()
    assert found.flops / found.seconds == pytest.approx(2 * 4**3 / 0.008)


def test_what_is_too_wide_for_the_memory_is_left_out_and_every_rank_meets_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Multiplying(monkeypatch, {2: 0.002, 4: 0, 8: 0})
    found = script.product()
    assert found.flops / found.seconds == pytest.approx(2 * 2**3 / 0.002)
    assert script.barriers == 3


def test_one_slow_product_is_better_than_none_and_wider_ones_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Multiplying(monkeypatch, {2: 2.0, 4: 16.0})
    found = script.product()
    assert found == Product(flops=16, seconds=2.0)
    assert script.clock.now == 100 + 3 * 2.0


def test_a_device_that_cannot_multiply_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="out of memory"):
        Multiplying(monkeypatch, {2: 0}).product()


def test_the_real_rate_is_found_within_a_few_seconds() -> None:
    found = roofline.product(torch.device("cpu"), "fp32", synchronize=lambda: None, barrier=lambda: None)
    assert 1e9 < found.flops / found.seconds < 1e14


# What becomes of it
