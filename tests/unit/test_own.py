"""A model of the user's own: chosen without a YAML file, and read off what it was saved with."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.config import own
from bench.config.choices import CONF
from bench.config.compose import compose
from bench.config.naming import file_stem
from bench.errors import UserError

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
    ("given", "chosen"),
    [
        (["model.pretrained=a/b", "seed=1"], ["model=own", "model.pretrained=a/b", "seed=1"]),
        (["-m", "++model.module=x.py:Net"], ["-m", "model=own", "++model.module=x.py:Net"]),
        (["seed=1", "model.pretrained=a,b", "--cfg", "job"], None),
        (["model=gpt2", "model.pretrained=a/b"], ["model=gpt2", "model.pretrained=a/b"]),
        (["model.pretrained=null"], ["model.pretrained=null"]),
        (["~model.pretrained", "model.name=x"], ["~model.pretrained", "model.name=x"]),
    ],
)
def test_a_model_of_ones_own_is_chosen_unless_a_preset_is(given: list[str], chosen: list[str] | None) -> None:
    expected = ["seed=1", "model=own", "model.pretrained=a,b", "--cfg", "job"] if chosen is None else chosen
    assert own.choose_own(given) == expected


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
    assert own.name_model(pretrained, module) == name


def test_a_folder_gives_the_name_and_the_task(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    overrides = [f"model.pretrained={folder}", "device=cpu"]
    config = compose(overrides)
    assert (config.model.name, config.model.task) == ("tiny_bert", "masked-lm")
    assert (config.micro_batch, config.seq_len, config.model.source) == (8, 64, str(folder))
    assert file_stem(config, "cpu", own.choose_own(overrides)).startswith("tiny_bert-cpux")
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


def test_a_hub_id_needs_a_task() -> None:
    assert refusal("model.pretrained=google-bert/bert-base-uncased") == (
        "model.task has no value, and nothing else says it; set model.task=…, such as masked-lm."
    )
    config = compose(["model.pretrained=google-bert/bert-base-uncased", "model.task=masked-lm"])
    assert (config.model.name, config.model.architecture) == ("bert-base-uncased", None)


def test_nothing_of_ones_own_is_refused() -> None:
    assert refusal("model=own").startswith("model=own is a model of your own, and none is given")


def test_every_end_of_a_class_names_a_task_that_there_is() -> None:
    tasks = {path.stem for path in (CONF.parent / "bench/worker/workload/tasks").glob("[!_]*.py")}
    assert {task.replace("-", "_") for task in own.HEADS.values()} <= tasks
