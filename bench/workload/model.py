"""Building the model: from its published configuration, or from pretrained weights where they can be had."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError

from bench.config import Model
from bench.errors import LaunchFailed
from bench.workload import tasks


def build(model: Model, *, attention: str, dropout: bool) -> torch.nn.Module:
    """The model in float32 on the CPU, in training mode.

    Args:
        model: architecture, dimensions and task.
        attention: transformers' `attn_implementation`.
        dropout: False switches off every dropout and drop-path, for parity checks.

    Raises:
        LaunchFailed: the pretrained weights cannot be had.
    """
    head = getattr(transformers, tasks.make(model.task).head)
    with _naming_what_cannot_be_read(model.pretrained):
        settings = configuration(model)
        if not dropout:
            switch_off_dropout(settings)
        if model.pretrained is None:
            built = head.from_config(settings, attn_implementation=attention)
        else:
            built = _pretrained(head, model.pretrained, settings, attention)
    if not dropout:
        _assert_no_dropout(built)
    return built.train()


def configuration(model: Model) -> Any:
    """The transformers configuration; `use_cache` is off, since training has no use for it."""
    if model.pretrained is not None:
        settings = transformers.AutoConfig.from_pretrained(
            model.pretrained, trust_remote_code=False, **model.config
        )
        settings.use_cache = False
        return settings
    settings = transformers.AutoConfig.for_model(model.architecture, **model.config)
    settings.use_cache = False
    return settings


def switch_off_dropout(settings: Any) -> None:
    """Set every dropout, `*_pdrop`, drop-path and layer-drop probability of a configuration to 0."""
    for key, value in vars(settings).items():
        if "drop" in key and isinstance(value, float):
            setattr(settings, key, 0.0)


def parameter_count(model: torch.nn.Module, *, trainable: bool = False) -> int:
    """Parameters, tied weights counted once; with `trainable` those that are trained."""
    return sum(one.numel() for one in model.parameters() if one.requires_grad or not trainable)


def accepted(model: torch.nn.Module, names: list[str]) -> list[str]:
    """Those of `names` that the model's forward takes (FNet, for one, takes no attention mask)."""
    taken = inspect.signature(model.forward).parameters
    return [name for name in names if name in taken]


def _pretrained(head: Any, where: str, settings: Any, attention: str) -> torch.nn.Module:
    return head.from_pretrained(
        where,
        config=settings,
        attn_implementation=attention,
        torch_dtype=torch.float32,
        trust_remote_code=False,
        use_safetensors=True,
    )


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


def _assert_no_dropout(model: torch.nn.Module) -> None:
    left = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0
    ]
    if left:
        raise LaunchFailed("invalid", f"dropout could not be switched off in {', '.join(left[:5])}")
