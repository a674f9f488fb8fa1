"""The user's model: chosen without a YAML file, and read off what it was saved with."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from bench.config import layers, user_model
from bench.config.choices import CONF
from bench.config.compose import compose
from bench.config.identity import config_hash
from bench.config.naming import file_stem
from bench.errors import UserError
from bench.measure.plan.preflight_dataset import check_model

pytestmark = pytest.mark.once

BERT: dict[str, Any] = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "vocab_size": 512,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
}


WHOLE = {"config.json": json.dumps(BERT)}


def saved(folder: Path, name: str = "tiny_bert", **changes: Any) -> Path:
    """A folder with a config.json alone."""
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps(BERT | changes))
    return folder / name


def refusal(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        compose(overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("pretrained", "module", "name"),
    [
        ("some/where/my_model", None, "my_model"),
        ("google-bert/bert-base-uncased", None, "bert-base-uncased"),
        ("./here/", None, "here"),
        (None, "path/to/net.py:TinyGPT", "tiny-gpt"),
        (None, "package.module:ConvNet2d", "conv-net2d"),
        (None, "net.py:build_model", "build_model"),
    ],
)
def test_a_model_is_named_after_where_it_is_from(pretrained: str, module: str, name: str) -> None:
    assert user_model.name_model(pretrained, module) == name


def test_a_folder_gives_the_name_and_the_task(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    overrides = [f"model.pretrained={folder}", "device=cpu"]
    config = compose(overrides)
    assert (config.model.name, config.model.task) == ("tiny_bert", "masked-lm")
    assert (config.micro_batch, config.seq_len, config.model.source) == (8, 64, str(folder))
    assert file_stem(config, "cpu").startswith("tiny_bert-cpux")
    assert compose([*overrides, "model.name=mine"]).model.name == "mine"


def test_images_have_no_length(tmp_path: Path) -> None:
    folder = saved(tmp_path, architectures=["ViTForImageClassification"], model_type="vit")
    config = compose([f"model.pretrained={folder}"])
    assert (config.model.task, config.seq_len) == ("image-classification", None)


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (["BertModel"], "model.task has no value, and config.json names BertModel"),
        ([], "model.task has no value, and config.json names no head"),
        (["BertForMaskedLM", "BertForTokenClassification"], "names BertForMaskedLM and BertForToken"),
    ],
)
def test_a_task_that_no_single_head_tells_is_asked_for(
    tmp_path: Path, classes: list[str], sentence: str
) -> None:
    folder = saved(tmp_path, architectures=classes)
    assert sentence in refusal(f"model.pretrained={folder}")
    assert compose([f"model.pretrained={folder}", "model.task=token-classification"]).model.task


def test_a_hub_id_needs_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal("model.pretrained=google-bert/bert-base-uncased") == (
        "model.task has no value, and there is no folder google-bert/bert-base-uncased here that says it; "
        "set model.task=…, such as masked-lm."
    )
    Path("ck_bert").mkdir()
    Path("ck_bert/config.json").write_text("{}")
    assert "no folder ck_bertt here that says" in refusal("model.pretrained=ck_bertt")
    for place in ("ck_bert/config.json", "models/ck/bert"):
        assert f"{place} is not a folder; give one with" in refusal(f"model.pretrained={place}")
    assert "ck_ber/ is not a folder" in refusal("model.pretrained=ck_ber/")
    config = compose(["model.pretrained=google-bert/bert-base-uncased", "model.task=masked-lm"])
    assert (config.model.name, config.model.architecture) == ("bert-base-uncased", None)


def test_every_end_of_a_class_names_a_task_that_there_is() -> None:
    tasks = {path.stem for path in (CONF.parent / "bench/worker/workload/tasks").glob("[!_]*.py")}
    assert {task.replace("-", "_") for task in user_model.HEADS.values()} <= tasks


# --- dimensions -----------------------------------------------------------------------------------


def with_weights(folder: Path, **changes: Any) -> Path:
    made = saved(folder, **changes)
    (made / "model.safetensors").write_bytes(b"")
    return made


def test_a_config_alone_gives_the_dimensions_and_takes_the_users(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    model = compose([f"model.pretrained={folder}", "++model.config.num_hidden_layers=5"]).model
    assert (model.dimensions["num_hidden_layers"], model.dimensions["vocab_size"]) == (5, 512)
    assert model.positions() == 128
    assert layers.count(model.dimensions) == 5


@pytest.mark.parametrize("size", ["mini", "layers:1"])
def test_a_config_alone_can_be_made_smaller_and_weights_cannot(tmp_path: Path, size: str) -> None:
    assert compose([f"model.pretrained={saved(tmp_path)}", f"model.size={size}"]).model.size == size
    (tmp_path / "tiny_bert" / "model.safetensors").write_bytes(b"")
    assert "has the size of its weights" in refusal(
        f"model.pretrained={tmp_path / 'tiny_bert'}", f"model.size={size}"
    )


def test_more_layers_than_a_folder_has_are_refused(tmp_path: Path) -> None:
    assert "too many of the 2 layers of tiny_bert" in refusal(
        f"model.pretrained={saved(tmp_path)}", "model.size=layers:3"
    )
    assert "seq_len=200 is longer than the 128 positions" in refusal(
        f"model.pretrained={tmp_path / 'tiny_bert'}", "seq_len=200"
    )


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"num_hidden_layers": 6}, "num_hidden_layers=6, not 2"),
        ({"hidden_size": 256, "num_attention_heads": 4}, "hidden_size=256, not 128; num_attention_heads=4"),
        ({"vocab_size": 31090}, "vocab_size=31090, not 30522"),
    ],
)
def test_a_preset_of_other_sizes_is_refused_by_its_keys(
    tmp_path: Path, changes: dict[str, Any], key: str
) -> None:
    preset = compose(["model=bert-tiny"]).model.config
    folder = with_weights(tmp_path, **preset | changes)
    sentence = refusal("model=bert-tiny", f"model.pretrained={folder}")
    assert f"{folder} has {key}" in sentence
    assert sentence.endswith("leave model=… and these keys out: config.json says all sizes.")


def test_a_preset_of_the_checkpoints_sizes_is_kept(tmp_path: Path) -> None:
    preset = compose(["model=bert-tiny"]).model.config
    folder = with_weights(tmp_path, **preset | {"hidden_dropout_prob": 0.5})
    assert compose(["model=bert-tiny", f"model.pretrained={folder}"]).model.name == "bert-tiny"


@pytest.mark.parametrize(
    ("override", "there"),
    [
        ("num_hidden_layers=8", "2"),
        ("num_hidden_layers=1", "2"),
        ("intermediate_size=65", "64"),
        ("max_position_embeddings=64", "128"),
    ],
)
def test_a_key_that_contradicts_the_weights_is_refused(tmp_path: Path, override: str, there: str) -> None:
    folder = with_weights(tmp_path)
    key, _, value = override.partition("=")
    assert f"{key}={there}, not {value}" in refusal(
        f"model.pretrained={folder}", f"++model.config.{override}"
    )


@pytest.mark.parametrize(
    "override",
    ["num_labels=5", "hidden_dropout_prob=0", "pad_token_id=3", "hidden_act=relu", "use_cache=false"],
)
def test_a_key_that_changes_no_tensor_is_taken(tmp_path: Path, override: str) -> None:
    folder = with_weights(
        tmp_path, pad_token_id=0, hidden_dropout_prob=0.1, hidden_act="gelu", use_cache=True
    )
    assert compose([f"model.pretrained={folder}", f"++model.config.{override}"])


def test_a_size_within_a_part_contradicts_too() -> None:
    saved_parts = {"vision_config": {"hidden_size": 32, "layer_norm_eps": 1e-5}}
    assert user_model.find_contradictions({"vision_config": {"hidden_size": 64}}, saved_parts) == [
        "vision_config.hidden_size=32, not 64"
    ]
    assert user_model.find_contradictions({"vision_config": {"layer_norm_eps": 1e-6}}, saved_parts) == []
    assert user_model.merge(saved_parts, {"vision_config": {"hidden_size": 64}})["vision_config"] == {
        "hidden_size": 64,
        "layer_norm_eps": 1e-5,
    }


def test_another_number_of_labels_replaces_their_names() -> None:
    assert user_model.merge({"id2label": {"0": "a"}, "label2id": {"a": 0}}, {"num_labels": 3}) == {
        "num_labels": 3
    }


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"model.safetensors": ""}, "has no config.json; give a folder that save_pretrained wrote."),
        ({"config.json": "{"}, "config.json is not JSON: "),
        ({"config.json": "[]"}, "config.json is no mapping of keys; "),
        ({"config.json": "{}"}, "config.json has no model_type; add the name that transformers has for it."),
        (WHOLE | {"pytorch_model.bin": ""}, "has its weights in pytorch_model.bin, which is not read"),
        (WHOLE | {"pytorch_model-00001-of-00002.bin": ""}, "-00001-of-00002.bin, which is not read; "),
        *(
            (WHOLE | {"adapter_config.json": "{}", weights: ""}, "would load the adapter's base model inst")
            for weights in ("model.safetensors", "adapter_model.safetensors")
        ),
    ],
)
def test_a_folder_that_is_no_checkpoint_is_refused(
    tmp_path: Path, files: dict[str, str], sentence: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert sentence in refusal(f"model.pretrained={tmp_path}", "model.task=masked-lm")


@pytest.mark.parametrize("kind", ["roberta", "electra"])
def test_a_preset_of_another_architecture_is_refused(tmp_path: Path, kind: str) -> None:
    folder = with_weights(tmp_path, model_type=kind)
    assert f"is of model_type {kind}, and the preset of bert" in refusal(
        "model=bert-tiny", f"model.pretrained={folder}"
    )


def test_the_files_that_may_run_belong_to_the_identity(tmp_path: Path) -> None:
    folder = saved(tmp_path, auto_map={"AutoConfig": "mine.Config"})
    (folder / "mine.py").write_text("1")
    overrides = [f"model.pretrained={folder}"]
    trusting = [*overrides, "model.trust_remote_code=true"]
    before = config_hash(compose(overrides)), config_hash(compose(trusting))
    assert before[0] != before[1]
    (folder / "mine.py").write_text("2")
    assert config_hash(compose(overrides)) == before[0]
    assert config_hash(compose(trusting)) != before[1]


# --- what is found before any launch --------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"\x10\0\0\0\0\0\0\0{}",
        b"\xff" * 100,
        save({"a": np.zeros(100)})[:-10],
    ],
)
def test_damaged_weights_are_found_without_a_rank(tmp_path: Path, content: bytes) -> None:
    folder = saved(tmp_path)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=r"model.safetensors is damaged or no file of safetensors; fetch"):
        check_model(compose([f"model.pretrained={folder}", "device=cpu"]))
