"""`model.size=layers:N` leaves out layers and nothing else."""

import pytest

from bench.config import layers
from bench.config.compose import compose
from bench.config.sizes import resize
from bench.errors import UserError
from bench.statistics.table_values import model_label


@pytest.mark.parametrize(
    ("published", "number", "kept"),
    [
        ({"num_hidden_layers": 24, "width": 1024}, 6, {"num_hidden_layers": 6, "width": 1024}),
        ({"encoder_layers": 12, "decoder_layers": 12}, 5, {"encoder_layers": 5, "decoder_layers": 5}),
        ({"encoder_layers": 12, "decoder_layers": 6}, 4, {"encoder_layers": 4, "decoder_layers": 2}),
    ],
)
def test_each_stack_of_layers_keeps_the_same_share_and_its_width(
    published: dict[str, int], number: int, kept: dict[str, int]
) -> None:
    assert resize(published, f"layers:{number}") == kept


@pytest.mark.parametrize(
    ("number", "depths"),
    [(4, [1, 1, 1, 1]), (6, [1, 1, 3, 1]), (8, [2, 2, 2, 2]), (12, [2, 2, 6, 2]), (23, [2, 2, 17, 2])],
)
def test_stages_of_a_hierarchy_share_the_layers(number: int, depths: list[int]) -> None:
    kept = resize({"depths": [2, 2, 18, 2]}, f"layers:{number}")["depths"]
    assert sum(kept) == number
    if number != 6:  # where a pair does not fit everywhere the deepest stage comes first
        assert kept == depths


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("layers:0", "names no number of layers"),
        ("layers:six", "names no number of layers"),
        ("layers:24", "too few or too many of the 24 layers"),
        ("layers:25", "choose layers:1 to layers:23, or published"),
        ("half", "is not known"),
        ("mini model.config.num_hidden_layers=12", "num_hidden_layers=12 has no effect .* which has 2"),
        ("mini model.config.hidden_size=512", "hidden_size=512 has no effect with model.size=mini"),
        ("mini ++model.config.vocab_size=5000", "vocab_size=5000 has no effect with model.size=mini"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(size: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        compose(["model=bert-large", "device=cpu", *f"model.size={size}".split()])


def test_a_miniature_takes_what_it_would_not_change() -> None:
    line = ["model=bert-large", "device=cpu", "model.size=mini", "model.config.num_hidden_layers=1"]
    assert resize(compose(line).model.config, "mini")["num_hidden_layers"] == 1


def test_every_stage_needs_a_layer() -> None:
    with pytest.raises(UserError, match="choose layers:4 to layers:23"):
        compose(["model=swinv2-base", "device=cpu", "model.size=layers:3"])


@pytest.mark.parametrize(
    ("model", "depth"),
    [("bert-large", 24), ("distilbert-base", 6), ("gpt2", 12), ("t5-large", 24), ("whisper-small", 12)],
)
def test_the_keys_of_layers_are_known_in_every_model_of_the_published_comparison(
    model: str, depth: int
) -> None:
    assert layers.count(compose([f"model={model}", "device=cpu"]).model.config) == depth


def test_a_label_never_hides_what_was_left_out() -> None:
    assert model_label("bert-large", "published", 24, 24) == "bert-large"
    assert model_label("bert-large", "layers:6", 6, 24) == "bert-large, 6 of 24 layers"
    assert model_label("bert-large", "mini", 2, 24) == "bert-large, mini"
    assert model_label("bert-large", "changed", 24, 24) == "bert-large, changed"
    for size in ("pretrained", "random weights"):  # the user's, of which nothing was left out
        assert model_label("ck-gpt", size, 2, 2) == model_label("ck-gpt", size, None, None) == "ck-gpt"
