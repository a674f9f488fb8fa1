"""Label smoothing and class weights as settings: what is refused, and that nothing changes without them."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.config.compose import compose
from bench.config.identity import config_hash, measured_settings
from bench.errors import UserError
from bench.report.content.kinds import VISION, modality_of
from tests.support.configs import a_config, a_model

CLASSES = ["model.task=sequence-classification", "++model.config.num_labels=3"]


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["model.label_smoothing=1.5"], "model.label_smoothing must be at most 1, not 1.5: it is a share"),
        (["model.label_smoothing=-0.1"], "model.label_smoothing must be at least 0, not -0.1"),
        (["model.label_smoothing=nan"], "model.label_smoothing must be at least 0, not nan"),
        (
            ["model.task=question-answering", "model.label_smoothing=0.1"],
            "model.label_smoothing=0.1 has no meaning for model.task=question-answering; choose one of: ",
        ),
        (["model.class_weights=[1,2]"], "model.class_weights has no meaning for model.task=masked-lm"),
        (
            [*CLASSES, "model.class_weights=[1,2]"],
            "model.class_weights has 2 weights, and there are 3 classes",
        ),
        ([*CLASSES, "model.class_weights=[]"], "model.class_weights has 0 weights, and there are 3 classes"),
        ([*CLASSES, "model.class_weights=[1,2,-1]"], "must all be above 0, not "),
        ([*CLASSES, "model.class_weights=[1,2,inf]"], "must all be above 0, not "),
        ([*CLASSES, "model.class_weights=[1,2,0]"], "must all be above 0, not "),
        (
            [CLASSES[0], "++model.config.num_labels=1", "model.label_smoothing=0.1"],
            "model.label_smoothing=0.1 needs one class for each label, and this model has none; leave it out",
        ),
        (
            [*CLASSES, "model.class_weights=[1,2,3]", "backend=[pytorch,pytorch_accumulation]"],
            "accumulate=4 takes the mean over parts, and with model.class_weights each part has another sum",
        ),
    ],
)
def test_what_means_nothing_is_refused_in_a_sentence(overrides: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        compose(["device=cpu", "model=bert-tiny", "backend=[pytorch]", *overrides])
    assert sentence in str(refused.value)


def test_only_where_they_are_set_they_are_part_of_what_is_measured(tmp_path: Path) -> None:
    model = replace(a_model(task="token-classification"), config={"num_labels": 2})
    plain = a_config(tmp_path, model=model)
    assert not {"label_smoothing", "class_weights"} & set(measured_settings(plain)["model"])
    assert model.describe_task() == "token-classification"
    changed = [
        replace(model, label_smoothing=0.1),
        replace(model, label_smoothing=0.2),
        replace(model, class_weights=[1.0, 2.0]),
        replace(model, class_weights=[2.0, 1.0]),
    ]
    hashes = {config_hash(replace(plain, model=one)) for one in (model, *changed)}
    names = {one.describe_task() for one in (model, *changed)}
    assert len(hashes) == len(names) == 5, "neither hash nor name is another's"


def test_many_weights_are_named_by_a_hash() -> None:
    config = {"num_labels": 1000}
    ones = a_model(task="image-classification", config=config, class_weights=[1.0] * 1000)
    others = replace(ones, class_weights=[1.0] * 999 + [2.0])
    assert len(ones.describe_task()) < 70
    assert ones.describe_task() != others.describe_task()
    assert modality_of("m", ones.describe_task()) == modality_of("m", "image-classification") == VISION
