"""What is typed becomes what Hydra takes, and a configuration the overrides that make it again."""

from pathlib import Path
from typing import Any

import pytest

from bench.config.compose import compose
from bench.config.differences import format_override, overrides_of
from bench.config.identity import config_hash
from bench.config.overrides import for_hydra
from bench.errors import UserError

SEVERAL = ["device=cpu", "device.world_size=2", "device.nnodes=2", "device.rdzv_endpoint=10.0.0.1:29400"]


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["results_dir=/tmp/möbel", "seed=1"], ['results_dir="/tmp/möbel"', "seed=1"]),
        (["study=1_0"], ['study="1_0"']),
        (["seed=1", "model.pretrained=a:b,c"], ["model=user_model", "seed=1", "model.pretrained=a:b,c"]),
        (["++model.module=x.py:Net", "+seed=1"], ["model=user_model", "model.module=x.py:Net", "seed=1"]),
        (["model.config.x=1", "+data.columns.a=ö"], ["++model.config.x=1", '++data.columns.a="ö"']),
        (["model=gpt2", "model.pretrained=a"], ["model=gpt2", "model.pretrained=a"]),
        (["model.module=null"], ["model.module=null"]),
        (["hydra.searchpath=[file://a]"], ["hydra.searchpath=[file://a]", "searchpath=[file://a]"]),
    ],
)
def test_texts_are_quoted_where_they_must_be_and_what_follows_is_added(
    words: list[str], given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert for_hydra(words) == given


@pytest.mark.parametrize(
    "value",
    [
        *("a/b.py:Net", "layers:2", "ö b", "null", "True", "1e3", "-1_0", ".5", "inf"),
        *("", "a,b", "x=y", 'a"b'),
        *(None, True, 3, 1e-7, [1, "2", None], {"a": "1", "b": [True]}),
    ],
)
def test_what_is_written_is_what_hydra_reads(value: Any) -> None:
    word = format_override("model.config.x", value)
    assert compose([word]).model.config["x"] == value


@pytest.mark.parametrize(
    "overrides",
    [
        ["resume=true", "results_dir=a", "reports_dir=b", "track=mlflow", "track.timeout_s=9", "seed=3"],
        ["++backends={pytorch@modern: {attention: sdpa}}", "backend=[pytorch,pytorch@modern]"],
        ["~model.config.type_vocab_size", "++backends.ortmodule.engine_options={compute_optimizer: false}"],
        ["data=hf", "data.path=/x", "data.processor='ö b'", "++data.columns={text: a.b}"],
        ["model=bert-tiny", "model.pretrained=x/y", "model.name=other", "adam.eps=0"],
        [*SEVERAL, "measure=thorough", "measure.target_half_width=0.01"],
    ],
)
def test_a_configuration_is_made_again_by_its_overrides(overrides: list[str]) -> None:
    config = compose(["device=cpu", *overrides])
    again = compose(overrides_of(config))
    assert config_hash(again) == config_hash(config)
    assert not again.resume
    assert not again.track.names
    places = compose(overrides_of(config, places=True))
    assert (places.resume, places.results_dir, places.track) == (
        config.resume,
        config.results_dir,
        config.track,
    )


def test_the_user_s_own_choices_are_found_again(tmp_path: Path) -> None:
    for file, text in {
        "measure/mine.yaml": "defaults: [quick]\nlaunches: 7\n",
        "model/mine.yaml": "defaults: [bert-tiny]\nname: mine\nconfig: {num_labels: 3}\n",
    }.items():
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(text)
    config = compose([f"hydra.searchpath=[file://{tmp_path}]", "model=mine", "measure=mine"])
    overrides = overrides_of(config)
    assert overrides[0] == f"hydra.searchpath=[file://{tmp_path}]"
    assert config_hash(compose(overrides)) == config_hash(config)


def test_a_link_is_between_nodes_and_none_leaves_the_configuration_s_hash_as_it_was() -> None:
    free, held = (compose([*SEVERAL, f"device.link_gbit_per_s={rate}"]) for rate in ("null", "1"))
    assert config_hash(free) == config_hash(compose(SEVERAL)) != config_hash(held)
    for wrong in (["device=cpu", "device.link_gbit_per_s=1"], [*SEVERAL, "device.link_gbit_per_s=0"]):
        with pytest.raises(UserError, match="link_gbit_per_s"):
            compose(wrong)
