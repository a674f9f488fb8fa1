"""Builds the model from its published configuration, or from pretrained weights."""

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

# transformers imports what models share with the first of them, and with it much of torch: 180 MiB that are
# libraries and no part of training. ONNX Runtime and DeepSpeed import them anyway, so that they would count
# for PyTorch alone. Any model's module does; this is a small one.
import transformers.models.bert.modeling_bert
from safetensors import SafetensorError

from bench.config import layers as configured_layers
from bench.config import sizes
from bench.config.model import Model
from bench.errors import LaunchFailed
from bench.worker.workload import adapters, layers, own_module, tasks

_NO_ATTENTION = re.compile(
    r"attention implementation|scaled_dot_product_attention|flash.?attention", re.IGNORECASE
)
"""In transformers' messages about an attention, and not in those about a number of attention heads."""


def build(model: Model, *, attention: str, dropout: bool, checkpointing: bool = False) -> torch.nn.Module:
    """The model in float32 on the CPU, in training mode.

    Args:
        model: architecture, dimensions and task.
        attention: transformers' `attn_implementation`.
        dropout: False switches off every dropout, drop-path and other noise, for parity checks.
        checkpointing: keep no activations within a layer, and compute them again in the backward pass.

    Raises:
        LaunchFailed: the pretrained weights cannot be had, or the architecture lacks what was asked for.
    """
    built = (
        _from_transformers(model, attention, dropout=dropout)
        if model.module is None
        else own_module.build(model)
    )
    if model.lora is not None:
        adapters.add(built, model.lora, dropout=dropout)
    layers.freeze(built, model.trained)
    if not dropout:
        if model.module is not None:  # which has no configuration to switch it off in
            _switch_off_attributes(built)
        _assert_no_dropout(built)
    if checkpointing:
        _checkpoint(built)
    return built.train()


def _from_transformers(model: Model, attention: str, *, dropout: bool) -> torch.nn.Module:
    head = getattr(transformers, tasks.make(model.task).head)
    with _naming_what_cannot_be_read(model.pretrained):
        settings = configuration(model)
        if not dropout:
            switch_off_dropout(settings)
        with _naming_missing_attention(attention, settings.model_type):
            if model.pretrained is None:
                built: torch.nn.Module = head.from_config(settings, attn_implementation=attention)
            else:
                built = head.from_pretrained(
                    model.pretrained,
                    config=settings,
                    attn_implementation=attention,
                    torch_dtype=torch.float32,
                    trust_remote_code=False,
                    use_safetensors=True,
                )
    return built


def configuration(model: Model) -> Any:
    """The transformers configuration; `use_cache` is off, since training has no use for it."""
    if model.pretrained is not None:
        settings = transformers.AutoConfig.from_pretrained(
            model.pretrained, trust_remote_code=False, **model.config
        )
    else:
        settings = transformers.AutoConfig.for_model(model.architecture, **model.config)
        if model.size != sizes.PUBLISHED:
            settings = transformers.AutoConfig.for_model(model.architecture, **_resized(settings, model))
    settings.use_cache = False
    return settings


def switch_off_dropout(settings: Any) -> None:
    """Make a configuration deterministic.

    Sets to 0 every dropout, `*_pdrop`, drop-path and layer-drop probability and the jitter of routers, and
    switches off the masking of spectrograms, also in configurations inside the configuration.
    """
    for key, value in list(vars(settings).items()):
        if isinstance(value, transformers.PretrainedConfig):
            switch_off_dropout(value)
        elif key == "apply_spec_augment":
            setattr(settings, key, False)
        elif _is_noise(key, value):
            setattr(settings, key, 0.0)


def parameter_count(model: torch.nn.Module, *, trainable: bool = False) -> int:
    """Parameters, tied weights counted once; with `trainable` those that are trained."""
    return sum(one.numel() for one in model.parameters() if one.requires_grad or not trainable)


def accepted(model: torch.nn.Module, names: list[str]) -> list[str]:
    """Those of `names` that the model's forward takes (FNet, for one, takes no attention mask)."""
    taken = inspect.signature(model.forward).parameters
    return [name for name in names if name in taken]


@contextmanager
def _naming_what_cannot_be_read(where: str | None) -> Iterator[None]:
    """A missing, damaged or foreign model is the user's, and named; other errors keep their traceback."""
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        if where is None:
            raise
        kind = "folder" if Path(where).exists() else "hub id"
        raise LaunchFailed("crashed", f"model.pretrained={where} ({kind}): {error}") from error


@contextmanager
def _naming_missing_attention(attention: str, architecture: str) -> Iterator[None]:
    """An attention that a model or this machine has not: transformers refuses it, in words that vary."""
    try:
        yield
    except (ImportError, ValueError) as error:
        if attention == "eager" or not _NO_ATTENTION.search(str(error)):
            raise
        raise LaunchFailed(
            "unsupported",
            f"attention={attention} cannot be had for model.architecture={architecture}; "
            "choose attention=eager.",
            details=str(error),
        ) from error


def _resized(settings: Any, model: Model) -> dict[str, Any]:
    """What to make a smaller configuration of: `model.config`, and what the rule changes of the defaults.

    Raises:
        LaunchFailed: a stack has a default number of layers, so that the coordinator cannot have counted it.
    """
    given = model.config
    taken = inspect.signature(type(settings).__init__).parameters
    known = {key: getattr(settings, key) for key in taken if hasattr(settings, key)} | given
    unnamed = [key for key in configured_layers.keys(known) if key not in given]
    if configured_layers.parse(model.size) is not None and unnamed:
        raise LaunchFailed(
            "crashed",
            f"model.size={model.size} needs every number of layers in model.config, which does not name "
            f"{', '.join(unnamed)}; add it to the model's file.",
        )
    small = sizes.resize(known, model.size)
    return {key: value for key, value in small.items() if key in given or value != known[key]}


def _checkpoint(model: Any) -> None:
    """Not reentrant: the reentrant kind needs an input that requires a gradient, which frozen models lack."""
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise LaunchFailed(
            "unsupported",
            f"transformers cannot checkpoint the activations of {type(model).__name__}; "
            "set checkpointing=false.",
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


def _switch_off_attributes(model: torch.nn.Module) -> None:
    for module in model.modules():
        for key in _noise_of(module):
            setattr(module, key, 0.0)


def _assert_no_dropout(model: torch.nn.Module) -> None:
    left = [f"{name}.{key}" for name, module in model.named_modules() for key in _noise_of(module)]
    if left:
        raise LaunchFailed("invalid", f"dropout could not be switched off in {', '.join(left[:5])}")
