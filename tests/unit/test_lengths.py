"""How long synthetic samples are, and how much padding that makes."""

import numpy as np
import pytest

from bench.config.choices import LENGTHS
from bench.config.data import Data
from bench.worker.workload import synthetic
from bench.worker.workload.tasks import Integers


def drawn(kind: str, seq_len: int, count: int = 20_000, seed: int = 0) -> Integers:
    data = Data(name="synthetic", lengths=kind)
    return synthetic.draw_lengths(data, count=count, seq_len=seq_len, random=np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("kind", "seq_len", "padding"),
    [
        ("full", 128, 0.0),
        ("uniform", 128, 0.25),
    ],
)
def test_the_padding_share_is_the_one_that_is_documented(kind: str, seq_len: int, padding: float) -> None:
    share = 1 - drawn(kind, seq_len).mean() / seq_len
    assert share == pytest.approx(padding, abs=0.02)


@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.parametrize("seq_len", [8, 16, 512])
def test_every_length_fits_and_none_is_empty(kind: str, seq_len: int) -> None:
    made = drawn(kind, seq_len)
    assert made.dtype == np.int64
    assert made.min() >= 1
    assert made.max() <= seq_len
