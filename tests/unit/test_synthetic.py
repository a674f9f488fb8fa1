"""The synthetic batches: seeded, padded, alike for every backend."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.config.choices import LENGTHS, TASKS, WITHOUT_LENGTH
from bench.config.data import Data
from bench.errors import LaunchFailed
from bench.worker.workload import tasks
from bench.worker.workload.synthetic import draw_lengths, padding_share, synthetic
from bench.worker.workload.tasks import IGNORED, Arrays

TOKENS = tuple(task for task in TASKS if task not in WITHOUT_LENGTH and "speech" not in task)
"""The tasks whose input is a text."""

SETTINGS: dict[str, Any] = {
    "vocab_size": 1000,
    "num_labels": 5,
    "image_size": 12,
    "num_channels": 3,
    "num_mel_bins": 4,
    "max_source_positions": 10,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
    "patch_size": 4,
    "conv_kernel": [10, 3],
    "conv_stride": [5, 2],
}


def made(
    task: str = "masked-lm", seed: int = 0, rank: int = 0, lengths: str = "uniform", **settings: Any
) -> list[Arrays]:
    return synthetic(
        Data(name="synthetic", lengths=lengths),
        task=task,
        settings=SimpleNamespace(**SETTINGS | settings),
        count=4,
        micro_batch=8,
        seq_len=None if task in WITHOUT_LENGTH else 64,
        seed=seed,
        rank=rank,
    )


def equal(ours: list[Arrays], theirs: list[Arrays]) -> bool:
    return all(
        np.array_equal(one[key], other[key]) for one, other in zip(ours, theirs, strict=True) for key in one
    )


@pytest.mark.parametrize("task", TASKS)
def test_the_same_seed_and_rank_give_the_same_batches_and_another_gives_others(task: str) -> None:
    assert equal(made(task), made(task))
    assert not equal(made(task), made(task, seed=1))
    assert not equal(made(task), made(task, rank=1))


def test_the_first_tokens_are_those_that_numpy_s_pcg64_gives_today() -> None:
    # Batches must not change with a version of numpy: results would no longer be comparable.
    assert made("causal-lm")[0]["input_ids"][0, :6].tolist() == [176, 813, 649, 912, 504, 607]


@pytest.mark.parametrize("task", ["masked-lm", "causal-lm", "token-classification", "translation"])
def test_padding_is_on_the_right_and_never_carries_a_label(task: str) -> None:
    for batch in made(task):
        mask = batch["attention_mask"]
        assert (np.diff(mask, axis=1) <= 0).all()
        assert (batch["labels"][mask == 0] == IGNORED).all()
        assert mask.sum(axis=1).min() >= 16


@pytest.mark.parametrize("task", ["sequence-classification", "image-classification"])
@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"num_labels": 1}, (8,)),
        ({"problem_type": "regression"}, (8, 5)),
        ({"problem_type": "multi_label_classification"}, (8, 5)),
    ],
)
def test_numbers_are_learnt_where_the_configuration_says_so(
    task: str, settings: dict[str, Any], shape: tuple[int, ...]
) -> None:
    labels = made(task, **settings)[0]["labels"]
    assert labels.shape == shape
    assert labels.dtype == np.dtype(np.float32)
    if settings.get("problem_type") == "multi_label_classification":
        assert {*labels.ravel().tolist()} == {0, 1}


def test_a_picture_has_the_size_of_the_configuration_or_of_one_inside_it_or_the_default() -> None:
    def pixels(**settings: Any) -> tuple[int, ...]:
        random = np.random.default_rng(0)
        found = SimpleNamespace(num_labels=3, **settings)
        task = tasks.make("semantic-segmentation")
        batch = task.draw(found, lengths=np.array([1]), seq_len=None, random=random)
        assert batch["labels"].shape == (1, *batch["pixel_values"].shape[2:])
        return batch["pixel_values"].shape

    assert pixels(image_size=[6, 8], num_channels=1) == (1, 1, 6, 8)
    assert pixels(vision_config=SimpleNamespace(model_type="clip", image_size=10)) == (1, 3, 10, 10)
    assert pixels() == (1, 3, 224, 224)


@pytest.mark.parametrize(
    ("task", "key"),
    [
        *(("masked-lm", "vocab_size"), ("speech-recognition", "num_mel_bins")),
        ("speech-recognition-ctc", "conv_kernel"),
        *(("translation", "decoder_start_token_id"), ("sequence-classification", "pad_token_id")),
    ],
)
def test_what_a_task_reads_and_a_configuration_lacks_is_named_with_its_key(task: str, key: str) -> None:
    settings: dict[str, Any] = {key: None}
    with pytest.raises(LaunchFailed, match=rf"has no {key}, .* set \+\+model\.config\.{key}=…") as caught:
        made(task, **settings)
    assert caught.value.status == "unsupported"


def test_ctc_has_a_position_for_every_token_and_a_blank_between() -> None:
    for batch in made("speech-recognition-ctc", feat_extract_norm="layer"):
        waves, mask = batch["input_values"], batch["attention_mask"]
        samples = mask.sum(axis=1)
        positions = ((samples - 10) // 5 + 1 - 3) // 2 + 1
        words = batch["labels"] != IGNORED
        assert positions.max() <= 64
        assert (2 * words.sum(axis=1) <= np.maximum(2, positions)).all()
        assert (waves[mask == 0] == 0).all()
        assert (batch["labels"][words] != 0).all(), "0 is the blank"


@pytest.mark.parametrize("task", TOKENS)
@pytest.mark.parametrize("padding", [None, 0, 7, 103, 999])
def test_the_models_own_padding_pads_and_nothing_else_does(task: str, padding: int | None) -> None:
    if padding is None and task == "sequence-classification":
        pytest.skip("it needs one")
    for batch in made(task, pad_token_id=padding):
        ids, mask = batch["input_ids"], batch["attention_mask"]
        assert (ids[mask == 0] == (padding or 0)).all()
        assert (ids[mask == 1] != (padding or 0)).all()
        assert 0 <= ids.min() <= ids.max() < 1000


def test_a_hidden_token_never_becomes_the_padding() -> None:
    """ONNX Runtime takes out padding by its id, and would take out a token that is not padding."""
    for batch in made("masked-lm", vocab_size=12, pad_token_id=3):
        assert (batch["input_ids"][batch["attention_mask"] == 1] != 3).all()
        assert {*range(12)} - {3} <= {*batch["input_ids"].ravel().tolist()}


def test_a_padding_outside_the_vocabulary_is_not_used() -> None:
    for batch in made("causal-lm", pad_token_id=50256):
        assert (batch["input_ids"][batch["attention_mask"] == 0] == 0).all()


@pytest.mark.parametrize("task", ["sequence-classification", "token-classification", "image-classification"])
def test_the_classes_are_those_of_the_model(task: str) -> None:
    labels = np.concatenate([batch["labels"].ravel() for batch in made(task)])
    assert {*labels[labels != IGNORED].tolist()} == {*range(5)}


def test_an_answer_is_a_span_of_real_tokens() -> None:
    for batch in made("question-answering"):
        starts, ends = batch["start_positions"], batch["end_positions"]
        assert (starts >= 0).all()
        assert (starts <= ends).all()
        assert (ends < batch["attention_mask"].sum(axis=1)).all()


def test_about_fifteen_percent_of_the_real_tokens_are_predicted() -> None:
    batches = made()
    predicted = sum(int((batch["labels"] != IGNORED).sum()) for batch in batches)
    real = sum(int(batch["attention_mask"].sum()) for batch in batches)
    assert 0.12 < predicted / real < 0.21


def test_the_causal_labels_are_the_tokens() -> None:
    for batch in made("causal-lm"):
        real = batch["attention_mask"] == 1
        assert np.array_equal(batch["labels"][real], batch["input_ids"][real])


def test_the_padding_share_counts_padded_positions_where_there_are_any() -> None:
    for task in TOKENS:
        assert 0.2 < (padding_share(made(task)) or 0) < 0.6, task
    for task in ("image-classification", "speech-recognition"):
        assert padding_share(made(task)) is None, task
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0]])
    assert padding_share([{"attention_mask": mask}]) == 3 / 8
    assert padding_share(made(lengths="full")) == 0


@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.parametrize("seq_len", [8, 16, 512])
def test_every_length_fits_none_is_empty_and_the_padding_is_the_one_that_is_documented(
    kind: str, seq_len: int
) -> None:
    data, random = Data(name="synthetic", lengths=kind), np.random.default_rng(0)
    drawn = draw_lengths(data, count=20_000, seq_len=seq_len, random=random)
    assert drawn.dtype == np.int64
    assert 1 <= drawn.min() <= drawn.max() <= seq_len
    if seq_len == 512:
        padding = {"full": 0.0, "uniform": 0.25}[kind]
        assert 1 - drawn.mean() / seq_len == pytest.approx(padding, abs=0.02)
