"""conf/model/user_model.yaml: what the command line does not say of a user's model is read from the model."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.config.choices import USER_TASK, WITHOUT_LENGTH
from bench.errors import UserError

USER_MODEL = "user_model"  # the choice of `model` that takes everything from the user's model
KEYS = ("model.pretrained", "model.module")  # the keys that name a user's model

HEADS = {
    "ForMaskedLM": "masked-lm",
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
    "ForSequenceClassification": "sequence-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForImageClassification": "image-classification",
    "ForSemanticSegmentation": "semantic-segmentation",
    "ForCTC": "speech-recognition-ctc",
}
"""Endings of transformers' class names by task, where the ending alone determines the task."""


def name_model(pretrained: str | None, module: str | None) -> str:
    """Return the folder's or hub id's last part, or the module's name in kebab case; one must be given."""
    if pretrained is not None and module is None:
        return Path(pretrained).absolute().name
    if module is None:
        raise UserError(
            f"model={USER_MODEL} stands for your model, and none is given",
            "set model.pretrained=… to a folder with a config.json or to a hub id, set model.module=… to "
            "path/to/file.py:Name, or choose another model",
        )
    name = module.rpartition(":")[2]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def is_random(pretrained: str | None) -> bool:
    """Whether a model has random weights: there is no checkpoint, or a folder with a config.json alone."""
    if pretrained is None:
        return True
    return Path(pretrained).is_dir() and not any(Path(pretrained).glob("*.safetensors"))


def merge(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved configuration with what is given over it, also within its parts."""
    merged = dict(saved)
    if "num_labels" in given:  # these would count other ones
        merged = {key: value for key, value in merged.items() if key not in ("id2label", "label2id")}
    for key, value in given.items():
        below = saved.get(key)
        merged[key] = (
            merge(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
        )
    return merged


def find_contradictions(given: Mapping[str, Any], saved: Mapping[str, Any], path: str = "") -> list[str]:
    """Return sizes that differ, as `KEY=6, not 2`: settings that may decide the shape or number of tensors.

    These are whole numbers and lists of them, except numbers of labels and tokens, and probabilities.
    """
    found = []
    for key, value in given.items():
        there = saved.get(key, value)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            found += find_contradictions(value, there, f"{path}{key}.")
        elif value != there and _is_size(value) and _is_size(there) and not _NO_SIZE.search(key):
            found.append(f"{path}{key}={there}, not {value}")
    return found


_NO_SIZE = re.compile(r"num_labels|tokens?(_ids?)?$|drop|jitter|seed")


def _is_size(value: Any) -> bool:
    return value is None or (isinstance(value, list | int) and not isinstance(value, bool))


def check_folder(pretrained: str | None, architecture: str | None, given: Mapping[str, Any]) -> None:
    """Refuse a folder without a checkpoint, and a checkpoint whose sizes a preset or the user contradicts.

    A hub id is not checked here. `given` is `model.config`.
    """
    saved, folder = read_config(pretrained), Path(pretrained or "")
    if saved is None:
        return
    key = f"model.pretrained={pretrained}"
    kind = saved.get("model_type")
    if kind is None and "auto_map" not in saved:
        raise UserError(
            f"{folder}/config.json has no model_type", "add the name that transformers has for it"
        )
    pickles = [path.name for path in sorted(folder.iterdir()) if path.name.startswith(_PICKLES)]
    if is_random(pretrained) and pickles:
        raise UserError(
            f"{key} has its weights in {pickles[0]}, which is not read",
            "save them as safetensors, or remove it",
        )
    if (folder / _ADAPTER).exists():
        raise UserError(
            f"{key} holds {_ADAPTER}, so that transformers would load the adapter's base model instead",
            "remove it, or merge the adapter into its model and save that",
        )
    if architecture not in (None, kind):
        raise UserError(f"{key} is of model_type {kind}, and the preset of {architecture}", _DROP)
    if architecture is None and is_random(pretrained):
        return  # of other sizes its weights are random, too
    if found := find_contradictions(given, saved):
        raise UserError(f"{key} has {'; '.join(found)} as model.config says", _DROP)


_ADAPTER = "adapter_config.json"
_PICKLES = ("pytorch_model", "tf_model", "flax_model", "model.ckpt")
_DROP = "leave model=… and these keys out: config.json says all sizes"


def find_task(pretrained: str | None, module: str | None) -> str:
    """Return the task of the head that a folder's config.json names, or refuse one that does not name one."""
    if module is not None:
        return USER_TASK
    classes = (read_config(pretrained) or {}).get("architectures") or []
    tasks = {task for name in classes for end, task in HEADS.items() if name.endswith(end)}
    if len(tasks) != 1:
        seen = f"names {' and '.join(classes)}" if classes else "names no head"
        where = f"config.json {seen}"
        if pretrained and read_config(pretrained) is None:
            where = f"there is no folder {pretrained} here that says it"
        raise UserError(f"model.task has no value, and {where}", "set model.task=…, such as masked-lm")
    return tasks.pop()


def read_config(pretrained: str | None) -> dict[str, Any] | None:
    """Return what a folder's config.json holds; None for a hub id. Refuses a path without such a file."""
    if pretrained is None:
        return None
    file = Path(pretrained) / "config.json"
    if not file.parent.is_dir():
        # What no hub id (`owner/name` or `name`) looks like can only be a folder.
        is_path = re.match("[./~]", pretrained) or re.search("/$|/.*/", pretrained)
        if not (is_path or file.parent.exists()):
            return None
        raise UserError(
            f"model.pretrained={pretrained} is not a folder",
            "give one with config.json and model.safetensors in it, or the id of a model on the hub",
        )
    if not file.is_file():
        raise UserError(
            f"model.pretrained={pretrained} has no config.json", "give a folder that save_pretrained wrote"
        )
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} is not JSON: {error}", "save the model anew with save_pretrained") from None
    if not isinstance(found, dict):
        raise UserError(f"{file} is no mapping of keys", "save the model anew with save_pretrained")
    return found


def length(task: str) -> int | None:
    """Return tokens of a sample, as few as bert-tiny's; None for images and for a user's example_batch."""
    return None if task in (*WITHOUT_LENGTH, USER_TASK) else 64
