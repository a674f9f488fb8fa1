"""A model that cannot be built or fed is refused in a sentence before any launch, by its shapes alone."""

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bench.config.compose import compose
from bench.config.data import Data
from bench.errors import LaunchFailed, UserError
from bench.plugins.hf.inspection import inspect_dataset
from bench.worker.workload import model as models
from bench.worker.workload.inspections import inspect_model
from tests.support import local_data
from tests.support.configs import a_model

pytestmark = pytest.mark.once

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 256,
}


def folder_of(folder: Path, **config: Any) -> str:
    """A model that is its config.json alone."""
    (folder / "m").mkdir()
    (folder / "m" / "config.json").write_text(json.dumps(config))
    return str(folder / "m")


def inspect(kind: str, task: str, seq_len: int | None, folder: Path, **settings: Any) -> list[str]:
    """What is found out about a folder with this config.json alone."""
    pretrained = folder_of(folder, model_type=kind, **settings)
    model = a_model(pretrained=pretrained, task=task, architecture=None, config={})
    return inspect_model(model, seq_len=seq_len)


POSITIONS = "position_embeddings.weight, whose last is 33; set seq_len=32, or 2 more model.config.max_pos"


@pytest.mark.parametrize(
    ("kind", "task", "seq_len", "settings", "words"),
    [
        # positions that begin behind the padding's
        ("roberta", "masked-lm", 34, {"max_position_embeddings": 34, "pad_token_id": 1}, POSITIONS),
        ("mpnet", "masked-lm", 34, {"max_position_embeddings": 34, "pad_token_id": 1}, POSITIONS),
        ("camembert", "masked-lm", 34, {"max_position_embeddings": 34, "pad_token_id": 1}, POSITIONS),
        ("esm", "masked-lm", 33, {"max_position_embeddings": 34, "pad_token_id": 2}, "set seq_len=31, or 2"),
        # sizes that contradict each other
        ("bert", "masked-lm", 32, {"num_attention_heads": 3}, "not a multiple of the number of attention h"),
        ("llama", "causal-lm", 32, {"pad_token_id": 256}, "Padding_idx must be within num_embeddings"),
        ("bert", "masked-lm", 32, {"pad_token_id": 999}, "Padding_idx must be within num_embeddings"),
        ("llama", "causal-lm", 32, {"num_attention_heads": 4, "num_key_value_heads": 3}, "LlamaForC"),
        # what training needs and no model has by itself
        ("t5", "translation", 32, {"d_model": 32, "num_layers": 2}, "++model.config.decoder_start_token_id="),
        ("mt5", "translation", 32, {"d_model": 32, "decoder_start_token_id": None}, "decoder_start_token_id"),
        ("bert", "masked-lm", 32, {"return_dict": False}, "'tuple' object has no attribute 'loss'"),
        # what would be trained otherwise than the row says
        ("bert", "masked-lm", 32, {"quantization_config": {"bits": 4}}, "quantization_config={'bits': 4}"),
        ("bert", "masked-lm", 32, {"compression_config": {"format": "dense"}}, "remove it from config.json"),
        ("gpt2", "causal-lm", 32, {"gradient_checkpointing": True}, "set here by checkpointing=true; remove"),
    ],
)  # fmt: skip
def test_a_model_that_cannot_train_is_refused_in_a_sentence(
    kind: str, task: str, seq_len: int | None, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises((UserError, LaunchFailed)) as caught:
        inspect(kind, task, seq_len, tmp_path, **SMALL | settings)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "task", "settings", "unused"),
    [
        ("xlnet", "sequence-classification", {"d_model": 32, "n_layer": 1, "n_head": 2}, 5),
        ("big_bird", "masked-lm", {"block_size": 8, "num_random_blocks": 1}, 2),
        ("bert", "masked-lm", {}, 0),
        ("opt", "causal-lm", {"max_position_embeddings": 32, "word_embed_proj_dim": 32}, 0),
        ("mixtral", "causal-lm", {"num_local_experts": 2, "num_key_value_heads": 2}, 0),
    ],
)  # fmt: skip
def test_weights_without_a_gradient_are_found(
    kind: str, task: str, settings: dict[str, Any], unused: int, tmp_path: Path
) -> None:
    assert len(inspect(kind, task, 32, tmp_path, **SMALL | settings)) == unused


def test_a_large_model_is_tried_without_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = []
    build = models.build

    def built(*args: Any, **given: Any) -> torch.nn.Module:
        made = build(*args, **given)
        devices.append({weight.device.type for weight in made.parameters()})
        return made

    monkeypatch.setattr(models, "build", built)
    config = compose(["model=llama-2-7b", "device=cpu", "backend=[pytorch]"])
    assert inspect_model(config.model, seq_len=config.seq_len) == []
    assert devices == [{"meta"}]


ROBERTA = SMALL | {"model_type": "roberta", "pad_token_id": 0, "max_position_embeddings": 66}


@pytest.mark.parametrize(
    ("settings", "pair", "words"),
    [
        ({"type_vocab_size": 1}, True, "entry 1 of roberta.embeddings.token_type_embeddings.weight, whose"),
        ({"type_vocab_size": 1}, False, ""),
        ({"type_vocab_size": 2}, True, ""),
        ({"model_type": "bert", "type_vocab_size": 1}, True, "set ++model.config.type_vocab_size=2, or give"),
        ({"type_vocab_size": 2, "vocab_size": 300}, True, "asks for entry 300 of roberta.embeddings.word"),
        ({"type_vocab_size": 2, "vocab_size": 301}, True, ""),
        ({"type_vocab_size": 2, "max_position_embeddings": 16, "pad_token_id": 1}, True, "entry 17"),
    ],
)  # fmt: skip
def test_the_highest_ids_of_a_dataset_are_held_against_the_embeddings(
    settings: dict[str, Any], pair: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    rows = [{"text": "a cat", "text_pair": "sat", "label": number % 2} for number in range(40)]
    if "300" in words or settings.get("vocab_size") == 301:  # one word far down has an id behind a hole
        rows[33] = {"text": "a mat", "text_pair": "sat", "label": 0}
    words_of = Path(local_data.tokenizer(tmp_path / "words")) / "tokenizer.json"
    saved = json.loads(words_of.read_text())
    saved["model"]["vocab"]["mat"] = 300
    words_of.write_text(json.dumps(saved))
    pretrained = folder_of(tmp_path, **ROBERTA | {"vocab_size": 64} | settings)
    columns = {"text_pair": "text_pair"} if pair else {}
    path = local_data.lines(tmp_path / "data", rows)
    data = Data(name="hf", path=path, processor=str(words_of.parent), columns=columns)
    model = a_model(pretrained=pretrained, task="sequence-classification", architecture=None, config={})
    with pytest.raises(UserError, match=re.escape(words)) if words else nullcontext():
        inspect_dataset(model, data, seq_len=16, global_batch=4)


@pytest.mark.parametrize(
    ("processor", "settings", "words"),
    [
        ({"do_resize": False}, {}, "makes 3 x 40 x 60 of"),
        ({"size": {"shortest_edge": 32}}, {}, "makes 3 x 32 x 48 of"),
        ({"size": {"height": 24, "width": 24}}, {"image_size": [32, 32]}, "size (24*24) doesn't"),
        ({"size": {"height": 24, "width": 24}}, {"image_size": 32}, "size (24*24) doesn't"),
        ({"size": {"height": 32, "width": 32}}, {"image_size": [32, 32]}, ""),
        ({"do_resize": False}, {"wide": 79}, "makes 3 x 48 x 48 of"),
    ],
)
def test_images_must_become_equal_in_size(
    processor: dict[str, Any], settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    from PIL import Image

    wide = settings.get("wide")
    for number in range(80):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        is_wide = number == wide if wide else number % 4 < 2
        shape = (48, 48, 3) if is_wide else (40, 60, 3)
        Image.fromarray(np.zeros(shape, dtype=np.uint8)).save(folder / f"{number:02}.png")
    made = transformers.CLIPImageProcessor(do_center_crop=False, **processor)
    made.save_pretrained(tmp_path / "processor")
    sizes: dict[str, Any] = {"model_type": "resnet", "depths": [1, 1]}
    if "image_size" in settings:
        sizes = {"model_type": "vit", "patch_size": 8}
    resnet = {"embedding_size": 16, "hidden_sizes": [16, 32], "layer_type": "basic", "num_labels": 2}
    pretrained = folder_of(tmp_path, **resnet | SMALL | sizes | settings)
    data = Data(name="hf", path=str(tmp_path / "photos"), processor=str(tmp_path / "processor"))
    model = a_model(pretrained=pretrained, task="image-classification", architecture=None, config={})
    with pytest.raises(UserError, match=re.escape(words)) if words else nullcontext():
        inspect_dataset(model, data, seq_len=None, global_batch=4)
