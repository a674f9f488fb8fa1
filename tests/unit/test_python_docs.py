"""Real text as micro-batches: what is held out, what is masked, what is refused."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from bench.config.compose import compose
from bench.config.data import Data
from bench.config.schema import Config
from bench.errors import UserError
from bench.measure.plan.preflight_dataset import check_dataset
from bench.measure.plan.resolve import resolve
from bench.plugins.python_docs import text as python_docs
from bench.plugins.python_docs.text import (
    FIRST_ID,
    HELD_OUT_WINDOWS,
    MASK_ID,
    VOCABULARY,
    count_predicted,
    cut,
    held_out_batch,
    held_out_windows,
    make_batch,
    training_batches,
)
from bench.worker.workload.order import Order
from bench.worker.workload.tasks import IGNORED, Arrays, Integers
from tests.support.configs import a_config

SEQ_LEN = 64


def made(task: str = "causal-lm", seed: int = 0, rank: int = 0, count: int = 3) -> list[Arrays]:
    windows = cut(python_docs.split()[0], SEQ_LEN)
    order = Order(len(windows), micro_batch=8, rank=rank, world_size=2, seed=seed)
    return [*itertools.islice(training_batches(windows, order, task=task), count)]


def texts(batches: list[Arrays]) -> list[bytes]:
    """What the samples of a causal model say."""
    return [bytes((row - FIRST_ID).tolist()) for batch in batches for row in batch["input_ids"]]


def equal(ours: list[Arrays], theirs: list[Arrays]) -> bool:
    return all(
        np.array_equal(one[key], other[key]) for one, other in zip(ours, theirs, strict=True) for key in one
    )


def test_the_text_is_what_python_says_of_itself_and_has_a_digest() -> None:
    assert b"yield" in python_docs.text()
    assert len(python_docs.text()) > 200_000
    assert len(python_docs.digest()) == 12
    training, held_out = python_docs.split()
    assert training + held_out == python_docs.text()
    assert len(held_out) == len(python_docs.text()) // 10


def test_what_is_held_out_is_never_trained_on() -> None:
    training, held_out = python_docs.split()
    windows = cut(training, SEQ_LEN)
    batches = made(count=2 * len(windows) // 16)  # two epochs of this rank
    assert all(text in training for text in texts(batches[:20]))
    assert {*texts(batches)} <= {bytes(row.tolist()) for row in windows}
    looked_at = [bytes(row.tolist()) for row in held_out_windows(SEQ_LEN)]
    assert len(looked_at) == HELD_OUT_WINDOWS
    assert all(text in held_out for text in looked_at)


def test_an_epoch_has_every_window_at_most_once_and_the_ranks_share_it() -> None:
    training, _ = python_docs.split()
    steps = len(cut(training, SEQ_LEN)) // 16
    orders = [Order(len(cut(training, SEQ_LEN)), micro_batch=8, rank=r, world_size=2, seed=3) for r in (0, 1)]
    seen = [number for order in orders for draw in itertools.islice(order, steps) for number in draw.samples]
    assert len(set(seen)) == len(seen) == 16 * steps


@pytest.mark.parametrize("task", python_docs.TASKS)
def test_the_same_seed_gives_every_backend_the_same_batches_and_another_seed_others(task: str) -> None:
    assert equal(made(task), made(task))
    assert not equal(made(task), made(task, seed=2))
    assert not equal(made(task), made(task, rank=1))


def test_a_causal_model_predicts_every_byte_but_the_first() -> None:
    batch = held_out_batch(SEQ_LEN, task="causal-lm")
    assert np.array_equal(batch["input_ids"], batch["labels"])
    assert count_predicted(batch["labels"], task="causal-lm") == HELD_OUT_WINDOWS * (SEQ_LEN - 1)


def test_of_the_masked_bytes_eight_in_ten_are_hidden_and_one_is_another() -> None:
    windows = np.tile(np.arange(64, 96, dtype=np.int64), (4000, 2))
    batch = make_batch(windows, task="masked-lm", random=np.random.default_rng(0))
    chosen = batch["labels"] != IGNORED
    ids, labels = batch["input_ids"], batch["labels"]
    assert chosen.mean() == pytest.approx(0.15, abs=0.005)
    assert (ids[chosen] == MASK_ID).mean() == pytest.approx(0.8, abs=0.01)
    assert (ids[chosen] == labels[chosen]).mean() == pytest.approx(0.1, abs=0.01)
    assert np.array_equal(ids[~chosen], windows[~chosen] + FIRST_ID)
    assert np.array_equal(labels[chosen], windows[chosen] + FIRST_ID)
    assert count_predicted(labels, task="masked-lm") == chosen.sum()
    assert chosen.any(axis=1).all(), "a row without a label has no loss"


@pytest.mark.parametrize("task", python_docs.TASKS)
def test_tokens_keep_clear_of_special_ones_and_fit_the_vocabulary(task: str) -> None:
    for batch in [*made(task), held_out_batch(SEQ_LEN, task=task)]:
        ids = batch["input_ids"]
        assert FIRST_ID <= ids.min() <= ids.max() < VOCABULARY
        assert {value.dtype for value in batch.values()} == {np.dtype(np.int64)}
        assert (batch["attention_mask"] == 1).all()


def test_windows_do_not_overlap_and_the_rest_is_left_out() -> None:
    windows: Integers = cut(bytes(range(10)), 4)
    assert windows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_the_record_says_which_text_it_was(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    config.data = Data(name="python_docs")
    plan = resolve(config, "m-cpux2", gpus=[], cores=[(0,), (1,)])
    workload = plan.records["pytorch"].workload
    assert workload.data == f"python_docs:{python_docs.digest()}"
    assert (workload.loader, workload.lengths) == ("", ""), "its batches lie ready"


@pytest.mark.parametrize("model", ["bert-tiny", "gpt2-tiny", "bert-mini model.task=masked-lm"])
def test_models_of_language_are_taken(model: str) -> None:
    check_dataset(config_of(f"model={model}"))


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            "model=bert-mini",
            "data=python_docs is a text without labels, and model.task=sequence-classification needs some; "
            "choose a model of another task, such as bert-tiny, or model.task=masked-lm.",
        ),
        ("model=vit-base", "model.task=image-classification needs some"),
        ("model=bert-tiny model.config.vocab_size=200", "has 265 words, more than model.config.vocab_size"),
        ("model=bert-tiny micro_batch=5000", "samples of seq_len=64 to train on, and one step takes 10,000"),
    ],
)
def test_what_cannot_be_trained_on_it_is_refused_in_a_sentence(overrides: str, sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        check_dataset(config_of(overrides))
    assert sentence in str(refused.value)


def config_of(overrides: str) -> Config:
    return compose(["data=python_docs", "device=cpu", "device.world_size=2", *overrides.split()])


def test_a_micro_batch_larger_than_the_text_is_refused_and_not_waited_for() -> None:
    order = Order(15, micro_batch=8, rank=0, world_size=2, seed=0)
    with pytest.raises(UserError, match="has 15 samples, and one micro-batch of all ranks takes 16; lower"):
        next(iter(order))
