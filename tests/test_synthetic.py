"""The synthetic batches: seeded, padded, alike for every backend."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.config import Data
from bench.workload.synthetic import padding_share, synthetic
from bench.workload.tasks import IGNORED, Arrays


def made(task: str = "masked-lm", seed: int = 0, rank: int = 0, share: float = 0.25) -> list[Arrays]:
    return synthetic(
        Data(name="synthetic", min_length_share=share),
        task=task,
        settings=SimpleNamespace(vocab_size=1000),
        count=4,
        micro_batch=8,
        seq_len=64,
        seed=seed,
        rank=rank,
    )


def equal(ours: list[Arrays], theirs: list[Arrays]) -> bool:
    return all(
        np.array_equal(one[key], other[key]) for one, other in zip(ours, theirs, strict=True) for key in one
    )


def test_the_same_seed_and_rank_give_the_same_batches() -> None:
    assert equal(made(), made())


@pytest.mark.parametrize("other", [{"seed": 1}, {"rank": 1}])
def test_another_seed_or_rank_gives_others(other: dict[str, Any]) -> None:
    assert not equal(made(), made(**other))


def test_the_first_tokens_are_those_that_numpy_s_pcg64_gives_today() -> None:
    # Batches must not change with a version of numpy: results would no longer be comparable.
    assert made("causal-lm")[0]["input_ids"][0, :6].tolist() == [850, 636, 511, 269, 307, 40]


@pytest.mark.parametrize("task", ["masked-lm", "causal-lm"])
def test_padding_is_on_the_right_and_never_carries_a_label(task: str) -> None:
    for batch in made(task):
        mask = batch["attention_mask"]
        assert (np.diff(mask, axis=1) <= 0).all()
        assert (batch["labels"][mask == 0] == IGNORED).all()
        assert mask.sum(axis=1).min() >= 16


def test_every_row_has_a_label() -> None:
    for batch in made():
        assert ((batch["labels"] != IGNORED).sum(axis=1) >= 1).all()


def test_about_fifteen_percent_of_the_real_tokens_are_predicted() -> None:
    batches = made()
    predicted = sum(int((batch["labels"] != IGNORED).sum()) for batch in batches)
    real = sum(int(batch["attention_mask"].sum()) for batch in batches)
    assert 0.12 < predicted / real < 0.21


def test_the_causal_labels_are_the_tokens() -> None:
    for batch in made("causal-lm"):
        real = batch["attention_mask"] == 1
        assert np.array_equal(batch["labels"][real], batch["input_ids"][real])


def test_successive_batches_differ_in_their_padding() -> None:
    lengths = [tuple(batch["attention_mask"].sum(axis=1)) for batch in made()]
    assert len(set(lengths)) == len(lengths)


def test_the_padding_share_counts_padded_positions() -> None:
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0]])
    assert padding_share([{"attention_mask": mask}]) == 3 / 8
    assert padding_share(made(share=1.0)) == 0
