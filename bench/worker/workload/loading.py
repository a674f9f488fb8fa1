"""Whether a checkpoint fits the model that was built of its configuration, and what of it was not used."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from bench.config.model import Model
from bench.errors import LaunchFailed

MOST_NAMED = 4
"""So many tensors are named in a sentence; the log has all."""

_OF_A_HEAD = re.compile(r"(^|\.)(pooler|mask_token)(\.|$)")
"""Parts of a base model that only some heads use."""


def judge_loading(model: torch.nn.Module, loaded: Mapping[str, Any], settings: Model) -> str:
    """Say which tensors of a head are new and which of another head were not used.

    Args:
        model: just loaded.
        loaded: transformers' `output_loading_info`.
        settings: with the checkpoint's place, and whether another number of labels was asked for.

    Raises:
        LaunchFailed: any other tensor is missing, unknown or of another shape, or could not be read.
    """
    new, unused = sorted(loaded["missing_keys"]), sorted(loaded["unexpected_keys"])
    reshaped = {name: (list(there), list(here)) for name, there, here in sorted(loaded["mismatched_keys"])}
    relabelled = "num_labels" in settings.config
    wrong = [f"{name} is missing" for name in new if not _is_of_a_head(model, name)]
    wrong += [f"{name} is unknown" for name in unused if not _is_of_a_head(model, name)]
    wrong += [
        f"{name} has the shape {there}, not {here}"
        for name, (there, here) in reshaped.items()
        if not (relabelled and _is_of_a_head(model, name))
    ]
    wrong += [str(error) for error in loaded.get("error_msgs", [])]
    if wrong:
        more = f"; and {len(wrong) - MOST_NAMED} more, in the log" if len(wrong) > MOST_NAMED else ""
        raise LaunchFailed(
            "crashed",
            f"the weights in model.pretrained={settings.pretrained} do not fit {type(model).__name__} of its "
            f"config.json: {'; '.join(wrong[:MOST_NAMED])}{more}",
            details="\n".join(wrong),
        )
    notes = {"new for this task": [*new, *reshaped], "of the checkpoint not used": unused}
    return "; ".join(f"{note}: {_modules(names)}" for note, names in notes.items() if names)


def _is_of_a_head(model: Any, name: str) -> bool:
    """Whether a tensor is none of the base model, which some checkpoints name without its prefix."""
    base = model.base_model
    first = name.partition(".")[0]
    inside = first == model.base_model_prefix or first in dict(base.named_children())
    return not inside or bool(_OF_A_HEAD.search(name))


def _modules(names: Iterable[str]) -> str:
    """`classifier, cls.predictions`: the modules that hold the tensors, the first of them."""
    modules = sorted({name.rpartition(".")[0] or name for name in names})
    more = f" and {len(modules) - MOST_NAMED} more" if len(modules) > MOST_NAMED else ""
    return f"{', '.join(modules[:MOST_NAMED])}{more}"
