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
        ("sst2", 128, 0.90),
        ("sst2", 64, 0.80),
        ("squad", 384, 0.56),
        ("squad", 128, 0.05),
    ],
)
def test_the_padding_share_is_about_that_of_the_dataset(kind: str, seq_len: int, padding: float) -> None:
    share = 1 - drawn(kind, seq_len).mean() / seq_len
    assert share == pytest.approx(padding, abs=0.02)


@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.parametrize("seq_len", [8, 16, 512])
def test_every_length_fits_and_none_is_empty(kind: str, seq_len: int) -> None:
    made = drawn(kind, seq_len)
    assert made.dtype == np.int64
    assert made.min() >= 1
    assert made.max() <= seq_len


@pytest.mark.parametrize("kind", LENGTHS)
def test_the_same_seed_gives_the_same_lengths(kind: str) -> None:
    assert (drawn(kind, 64, 10) == drawn(kind, 64, 10)).all()


def test_medians_are_the_published_ones() -> None:
    assert np.median(drawn("sst2", 512)) == 11
    assert np.mean(drawn("squad", 10_000)) == pytest.approx(170, abs=2)
