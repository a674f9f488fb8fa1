"""Builds the model from its published configuration, or from pretrained weights."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers

# transformers imports what models share with the first of them, and with it much of torch: 180 MiB that are
# libraries and no part of training. ONNX Runtime and DeepSpeed import them anyway, so that they would count
# for PyTorch alone. Any model's module does; this is a small one.
import transformers.models.bert.modeling_bert

from bench.config import user_model
from bench.config.choices import BEST_ATTENTION, TASKS
from bench.config.model import Model
from bench.errors import LaunchFailed, UserError
from bench.study import load_plugin
from bench.worker.workload import layers, tasks
from bench.worker.workload.settings import configuration, naming_what_cannot_be_read

NOTE = "weights_note"
"""The attribute of a model, and the key of a file of weights, that says what of a checkpoint was not used."""

_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
"""The kinds of `*args` and `**kwargs`, which need no value."""

_NO_ATTENTION = re.compile(
    r"attention implementation|scaled_dot_product_attention|flash.?attention", re.IGNORECASE
)
"""In transformers' messages about an attention, and not in those about a number of attention heads."""

MOST_NAMED = 4  # how many tensors a sentence names; the log has all
_OF_A_HEAD = re.compile(r"(^|\.)(pooler|mask_token)(\.|$)")  # parts of a base model that only some heads use


def build(
    model: Model, *, attention: str, dropout: bool, checkpointing: bool = False, pretrained: bool = False
) -> torch.nn.Module:
    """The model in float32 on the CPU, in training mode; `LaunchFailed` if it lacks what is asked for.

    Without `dropout` there is no other noise, either. If not `pretrained`, the weights are random.
    """
    if model.module is None:
        built = _from_transformers(model, attention, dropout=dropout, pretrained=pretrained)
    else:
        built = load_plugin("user_model.module").build(model)
    if model.lora is not None:
        layers.add_adapters(built, model.lora, dropout=dropout)
    layers.freeze(built, model.trained)
    if not dropout:
        silence(built)
    if checkpointing:
        _checkpoint(built)
    return built.train()


def _from_transformers(model: Model, attention: str, *, dropout: bool, pretrained: bool) -> torch.nn.Module:
    head = getattr(transformers, tasks.make(model.task).head)
    with naming_what_cannot_be_read(model):
        settings = configuration(model)
    if not model.trust_remote_code:  # remote code may bring another head
        check_head(settings, model.task)
    if not dropout:
        switch_off_dropout(settings)
    chosen = {
        "attn_implementation": None if attention == BEST_ATTENTION else attention,
        "torch_dtype": torch.float32,  # not the type in config.json, in which weights were saved
        "trust_remote_code": model.trust_remote_code,
    }
    with naming_what_cannot_be_read(model), _naming_missing_attention(attention, settings.model_type):
        if not pretrained or user_model.is_random(model.pretrained):
            random: torch.nn.Module = head.from_config(settings, **chosen)
            return random
        built, loaded = head.from_pretrained(
            model.pretrained,
            config=settings,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, with both shapes
            **chosen,
        )
    notes = [judge_loading(built, loaded, model), _revision(str(model.pretrained))]
    setattr(built, NOTE, "; ".join(filter(None, notes)))
    return built


def _revision(pretrained: str) -> str:
    """The commit that a hub id meant: the id may mean other weights later. Empty for a folder."""
    if Path(pretrained).is_dir():
        return ""
    path = huggingface_hub.try_to_load_from_cache(pretrained, "config.json")
    return f"weights of revision {Path(path).parent.name}" if isinstance(path, str) else ""


def judge_loading(model: torch.nn.Module, loaded: Mapping[str, Any], settings: Model) -> str:
    """Which tensors of a head are new or unused, by transformers' `output_loading_info`; else UserError."""
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
        raise UserError(
            f"the weights in model.pretrained={settings.pretrained} do not fit {type(model).__name__} of its "
            "config.json; save both anew with save_pretrained, or correct config.json: "
            f"{'; '.join(wrong[:MOST_NAMED])}{more}"
        ) from ValueError("\n".join(wrong))
    notes = {"new for this task": [*new, *reshaped], "of the checkpoint not used": unused}
    return "; ".join(f"{note}: {_modules(names)}" for note, names in notes.items() if names)


def _is_of_a_head(model: Any, name: str) -> bool:
    """Whether a tensor is not in the base model, whose prefix some checkpoints leave out."""
    base = model.base_model
    first = name.partition(".")[0]
    inside = first == model.base_model_prefix or first in dict(base.named_children())
    return not inside or bool(_OF_A_HEAD.search(name))


def _modules(names: Iterable[str]) -> str:
    """`classifier, cls.predictions`: the modules that hold the tensors, the first of them."""
    modules = sorted({name.rpartition(".")[0] or name for name in names})
    more = f" and {len(modules) - MOST_NAMED} more" if len(modules) > MOST_NAMED else ""
    return f"{', '.join(modules[:MOST_NAMED])}{more}"


def facts_of(model: Any, attention: str) -> dict[str, Any]:
    """What `messages.Built` says of a model of `build`, to which `attention` may have left the choice."""
    if attention == BEST_ATTENTION:
        attention = str(getattr(getattr(model, "config", None), "_attn_implementation", "eager"))
    return {
        "parameters": parameter_count(model),
        "trainable_parameters": parameter_count(model, trainable=True),
        "attention": attention,
    }


def switch_off_dropout(settings: Any) -> None:
    """Switch off dropout, drop-path, routers' jitter, masked spectrograms; in inner configurations, too."""
    for key, value in list(vars(settings).items()):
        if isinstance(value, transformers.PretrainedConfig):
            switch_off_dropout(value)
        elif key == "apply_spec_augment":
            setattr(settings, key, False)
        elif _is_noise(key, value):
            setattr(settings, key, 0.0)


def parameter_count(model: torch.nn.Module, *, trainable: bool = False) -> int:
    """Parameters, tied weights counted once; with `trainable` those that are trained."""
    return sum(
        parameter.numel() for parameter in model.parameters() if parameter.requires_grad or not trainable
    )


def accepted(model: torch.nn.Module, names: list[str]) -> list[str]:
    """Those of `names` that the model's forward takes; `unsupported` if it needs others, too."""
    taken = inspect.signature(model.forward).parameters
    needed = [name for name, one in taken.items() if one.default is one.empty and one.kind not in _REST]
    if missing := [name for name in needed if name not in names]:
        raise LaunchFailed(
            "unsupported",
            f"{type(model).__name__} needs {', '.join(missing)}, which this task does not make; "
            "choose another model.task.",
        )
    return [name for name in names if name in taken]  # FNet, for one, takes no attention mask


def check_head(settings: Any, task: str) -> None:
    """Refuse an architecture without a head for the task."""
    fitting = [
        name
        for name in TASKS
        if type(settings) in getattr(transformers, tasks.make(name).head)._model_mapping
    ]
    if task not in fitting:
        raise LaunchFailed(
            "unsupported",
            f"transformers {transformers.__version__} has no {settings.model_type} for model.task={task}; "
            + (f"choose model.task={' or '.join(fitting)}." if fitting else "choose another model."),
        )


@contextmanager
def _naming_missing_attention(attention: str, architecture: str) -> Iterator[None]:
    """Refuse an attention that the model or this machine lacks; transformers' own words for it vary."""
    try:
        yield
    except (ImportError, ValueError) as error:
        if attention == "eager" or not _NO_ATTENTION.search(str(error)):
            raise
        raise LaunchFailed(
            "unsupported",
            f"attention={attention} cannot be had for model.architecture={architecture}; set this backend's "
            "attention=eager.",
        ) from error


def _checkpoint(model: Any) -> None:
    """Not reentrant: that kind needs an input that requires a gradient, which frozen models lack."""
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise LaunchFailed(
            "unsupported",
            "checkpointing=true needs a model of transformers that can recompute its activations, unlike "
            f"{type(model).__name__}; set checkpointing=false.",
        )
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _is_noise(key: str, value: Any) -> bool:
    """Whether a setting or an attribute of a module makes two forward passes differ."""
    named = "drop" in key or "jitter" in key
    return named and isinstance(value, int | float) and not isinstance(value, bool)


def _noise_of(module: torch.nn.Module) -> list[str]:
    """Attributes that are probabilities, of this module or for functions: `dropout`, `drop_prob`, `p` …"""
    is_dropout = "drop" in type(module).__name__.lower()
    return [
        key
        for key, value in vars(module).items()
        if (_is_noise(key, value) or (is_dropout and key == "p")) and isinstance(value, float) and value > 0
    ]


def silence(model: torch.nn.Module) -> None:
    """Switch every dropout off in a built model, also what it reads off its configuration."""
    for module in model.modules():
        for key in _noise_of(module):
            setattr(module, key, 0.0)
    if isinstance(config := getattr(model, "config", None), transformers.PretrainedConfig):
        switch_off_dropout(config)
