"""conf/model/own.yaml: what the command line leaves out about a model of the user's is read off the model."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.config.choices import OWN_TASK, WITHOUT_LENGTH
from bench.config.overrides import last_values
from bench.errors import UserError
from bench.setup.recipes import STACKS

OWN = "own"
"""The choice of `model` that takes everything from the user's model."""

KEYS = ("model.pretrained", "model.module")
"""The keys that name a model of the user's own."""

HEADS = {
    "ForMaskedLM": "masked-lm",
    "ForCausalLM": "causal-lm",
    "LMHeadModel": "causal-lm",
    "ForSequenceClassification": "sequence-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForImageClassification": "image-classification",
}
"""How the classes of transformers end that have a task's head, where the end alone tells the task."""


def choose_own(overrides: Sequence[str]) -> list[str]:
    """Return the overrides, with model=own before one that names a model, unless they choose `model`."""
    values = last_values(overrides)
    named = [key for key in KEYS if values.get(key, "null") not in ("null", "")]
    if not named or "model" in values:
        return list(overrides)
    first = next(place for place, word in enumerate(overrides) if word.lstrip("+").startswith(f"{named[0]}="))
    return [*overrides[:first], f"model={OWN}", *overrides[first:]]


def name_model(pretrained: str | None, module: str | None) -> str:
    """Return the folder's or hub id's last part, or the module's name in kebab case.

    Raises:
        UserError: neither is given.
    """
    if pretrained is not None and module is None:
        return Path(pretrained).absolute().name
    if module is None:
        raise UserError(
            f"model={OWN} is a model of your own, and none is given",
            "set model.pretrained=… to a folder with a config.json or to a hub id, set model.module=… to "
            "path/to/file.py:Name, or choose another model",
        )
    name = module.rpartition(":")[2]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def find_task(pretrained: str | None, module: str | None) -> str:
    """Return the task of the one head that a folder's config.json names.

    Raises:
        UserError: it names none, or several, or there is no config.json here.
    """
    if module is not None:
        return OWN_TASK
    classes = (read_config(pretrained) or {}).get("architectures") or []
    tasks = {task for name in classes for end, task in HEADS.items() if name.endswith(end)}
    if len(tasks) != 1:
        seen = f"names {' and '.join(classes)}" if classes else "names no head"
        where = "config.json " + seen if pretrained and read_config(pretrained) else "nothing else says it"
        raise UserError(f"model.task has no value, and {where}", "set model.task=…, such as masked-lm")
    return tasks.pop()


def read_config(pretrained: str | None) -> dict[str, Any] | None:
    """Return what a folder's config.json holds; None for a hub id.

    Raises:
        UserError: it is not JSON.
    """
    file = Path(pretrained or "") / "config.json"
    if pretrained is None or not file.is_file():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} is not JSON: {error}", "save the model anew with save_pretrained") from None
    if not isinstance(found, dict):
        raise UserError(f"{file} is no mapping of keys", "save the model anew with save_pretrained")
    return found


def length(task: str) -> int | None:
    """Return tokens of a sample: bert-tiny's, which fit into the memory of most machines; None of images.

    None, too, of a module of the user's own: its example_batch knows.
    """
    return None if task in (*WITHOUT_LENGTH, OWN_TASK) else 64


def stacks_with_sdpa(module: str | None) -> list[str]:
    """Return the stacks that could set the attention to sdpa: none can in a module of the user's own."""
    return [] if module is not None else list(STACKS)
