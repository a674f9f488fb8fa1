"""Finds a model's repeated layers, freezes what is not trained, and adds low-rank adapters."""

import functools
from collections.abc import Callable
from importlib import import_module
from types import MethodType
from typing import Any

import torch

from bench.config.layers import parse
from bench.config.model import ALL, Lora
from bench.errors import LaunchFailed


def replace_forward(model: torch.nn.Module, forward: Callable[..., Any]) -> None:
    """Let a model run another forward, in place, under the old one's signature, where ORTModule reads names.

    A bound method, since ORTModule exports a deep copy: a plain function would use the original's weights.
    """
    model.forward = MethodType(functools.wraps(model.forward.__func__)(forward), model)


def find_layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The model's repeated layers: the members of every outermost ModuleList that are all of one class."""
    layers: list[torch.nn.Module] = []
    for child in module.children():
        if isinstance(child, torch.nn.ModuleList) and len({type(member) for member in child}) == 1:
            layers += child
        else:
            layers += find_layers(child)
    return layers


def freeze(model: torch.nn.Module, trained: str) -> None:
    """Leave only what `trained` says to be trained: `all`, `head`, or `layers:N`, the last N and the head.

    The head is what transformers puts on a base model. Weights that the two share belong to the base model.
    """
    if trained == ALL:
        return
    base: torch.nn.Module = model.base_model
    base.requires_grad_(False)
    number = parse(trained)
    if number is not None:
        layers = find_layers(base)
        if number > len(layers):
            raise LaunchFailed(
                "unsupported",
                f"model.trained={trained} asks for more layers than the {len(layers)} there are",
            )
        for layer in layers[-number:]:
            layer.requires_grad_(True)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise LaunchFailed(
            "unsupported",
            f"model.trained={trained} leaves nothing to be trained: {type(model).__name__} has no weights "
            "but those of its base model; choose model.trained=layers:1",
        )


def add_adapters(model: torch.nn.Module, lora: Lora, *, dropout: bool) -> None:
    """Give the named linear layers of a model, in place, an adapter each; nothing else trains afterwards.

    Nor does a new classifier, as in optimum's examples/onnxruntime/training/text-classification.
    """
    peft: Any = import_module("peft")  # slow, and few need it; preflight refuses its absence
    settings = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout if dropout else 0.0,
        target_modules=list(lora.modules),
    )
    paths = [f".{path}" for path, _ in model.named_modules()]
    missing = [name for name in lora.modules if not any(path.endswith(f".{name}") for path in paths)]
    if missing:
        raise LaunchFailed(
            "unsupported",
            f"{type(model).__name__} has no layer named {' or '.join(missing)}; set model.lora.modules=[…] "
            "to names of the model's linear layers.",
        )
    peft.inject_adapter_in_model(settings, model)
