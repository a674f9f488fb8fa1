"""The work of a step and its matrix products, against closed formulas."""

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from bench.config.compose import compose
from bench.config.data import Data
from bench.config.model import Lora, Model
from bench.studies.limit import flops
from bench.studies.limit.found import Roofline, Shape
from bench.worker.workload import feeds
from bench.worker.workload import model as models
from tests.support.configs import a_model


class Layers(torch.nn.Module):
    """Linear layers of `widths`, a sum as loss."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(*pair) for pair in pairs))

    def forward(self, x: torch.Tensor) -> Any:
        return dataclasses.make_dataclass("Output", ["loss"])(self.layers(x).sum())


def test_every_further_layer_takes_4mnk_backward() -> None:
    found = flops.count(Layers(32, 64, 16), {"x": torch.ones(8, 32)}).flops
    assert found == 4 * 8 * 32 * 64 + 6 * 8 * 64 * 16


def test_a_convolution_is_counted() -> None:
    model = Layers(1, 1)
    model.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, kernel_size=4, stride=4))
    # 4 positions of 8 filters of 3 x 4 x 4 for each of 2 pictures; the pictures need no gradient
    assert flops.count(model, {"x": torch.ones(2, 3, 8, 8)}).flops == 2 * 2 * 2 * 4 * 8 * 48


def counted(model: Model, *, micro_batch: int = 4, seq_len: int | None = 16) -> Roofline:
    """As a worker counts it."""
    return flops.count_step(*spec_and_batch(model, micro_batch=micro_batch, seq_len=seq_len))


def spec_and_batch(model: Model, *, micro_batch: int, seq_len: int | None) -> tuple[Any, Any]:
    """What a worker is started with, as far as it counts, and its first micro-batch."""
    spec: Any = SimpleNamespace(
        model=model,
        data=Data(name="synthetic"),
        micro_batch=micro_batch,
        samples_per_pass=micro_batch,
        seq_len=seq_len,
        grad_accum=1,
        accumulate=1,
        seed=0,
    )
    real = models.build(model, attention="eager", dropout=True)
    feed = feeds.make(spec, real, rank=0, world_size=1, pinned=False)
    (batch, *_), *_ = feed.steps(1)
    return spec, batch


def bert(tokens: int, length: int, *, width: int, inner: int, layers: int, words: int) -> int:
    """FLOPs of BERT's forward and backward pass; all layers' inputs need gradients."""
    projections = 4 * width * width + 2 * width * inner
    attention = 2 * length * width
    head = width * width + width * words
    return 6 * tokens * (layers * (projections + attention) + head)


def test_bert_takes_what_the_formula_says() -> None:
    found = counted(a_model())
    expected = bert(4 * 16, 16, width=64, inner=128, layers=2, words=512)
    assert found.counted == ((4, expected), (8, 2 * expected))


def test_the_products_of_a_known_bert_are_found_with_their_work() -> None:
    """Two layers of width 64 and 128 on 48 positions of 3 samples: forward, and both sides backward."""
    spec, batch = spec_and_batch(a_model(), micro_batch=3, seq_len=16)
    found = flops.count(models.build(spec.model, attention="eager", dropout=False), batch)
    tokens, width, inner, words = 48, 64, 128, 512
    projections = 2 * 4 + 1  # of both layers, and in the head
    expected = {
        # queries, keys, values, outputs: forward and to the input; to the weights
        (1, tokens, width, width): 2 * projections * 2 * tokens * width * width,
        (1, width, tokens, width): projections * 2 * tokens * width * width,
        (1, tokens, width, inner): 2 * 2 * 2 * tokens * width * inner,  # up, and backward of down
        (1, tokens, inner, width): 2 * 2 * 2 * tokens * width * inner,
        # weight gradients: the positions are summed over, and as many as the layer is wide
        (1, inner, tokens, width): 2 * 2 * tokens * width * inner,
        (1, width, tokens, inner): 2 * 2 * tokens * width * inner,
        (1, tokens, width, words): 2 * tokens * width * words,
        (1, tokens, words, width): 2 * tokens * width * words,
        (1, words, tokens, width): 2 * tokens * width * words,
        # attention of 2 heads of 32 on 16 positions
        (6, 16, 32, 16): 2 * 2 * 2 * 6 * 16 * 16 * 32,  # scores, and backward of the sum
        (6, 16, 16, 32): 2 * 3 * 2 * 6 * 16 * 16 * 32,
        (6, 32, 16, 16): 2 * 1 * 2 * 6 * 16 * 16 * 32,
    }
    by_sides = {(one.batch, one.rows, one.inner, one.columns): work for one, work in found.products.items()}
    assert by_sides == expected
    assert sum(by_sides.values()) == found.flops


def test_the_shapes_with_most_work_are_chosen_until_they_have_nine_tenths() -> None:
    by_side = {side: Shape(batch=1, rows=side, inner=1, columns=1) for side in range(1, 21)}
    work = {by_side[1]: 5, by_side[2]: 60, by_side[3]: 31, by_side[4]: 4}
    assert [one.shape.rows for one in flops.choose_products(work)] == [2, 3]
    assert [one.flops for one in flops.choose_products(work)] == [60, 31]
    many = dict.fromkeys(by_side.values(), 1)
    assert len(flops.choose_products(many)) == flops.MOST_SHAPES
    assert flops.choose_products({}) == []


def test_frozen_weights_have_no_gradients_to_compute() -> None:
    lora = Lora(rank=4, alpha=8.0, dropout=0.1, modules=["query", "value"])
    (_, found), _ = counted(a_model(lora=lora)).counted
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


@pytest.mark.parametrize("name", ["llama-2-7b", "beit-base", "mixtral-8x7b", "vit-base"])
def test_models_that_look_at_their_tensors_are_counted_too(name: str) -> None:
    config = compose(["device=cpu", f"model={name}", "model.size=mini", "backend=[pytorch]", "micro_batch=2"])
    found = counted(config.model, micro_batch=2, seq_len=config.seq_len)
    (_, once), (_, twice) = found.counted
    assert twice == pytest.approx(2 * once, rel=0.02)


def test_what_cannot_be_counted_by_shapes_and_is_too_large_to_run_is_said() -> None:
    huge = a_model(architecture="no-such", parameters=flops.MOST_BUILT + 1)
    with pytest.raises(ValueError, match="m is too large to be counted by more than its shapes"):
        flops.count_step(cast(Any, SimpleNamespace(model=huge, micro_batch=1)), {})
