"""Finds the layers of which a model has many, and freezes what is not trained."""

import torch

from bench.config.layers import parse
from bench.config.model import ALL
from bench.errors import LaunchFailed


def find_layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The model's repeated layers: the members of every ModuleList that are all of one class.

    So transformers builds its encoders and decoders. Lists inside such a layer, of experts for one, are part
    of it.
    """
    layers: list[torch.nn.Module] = []
    for child in module.children():
        if isinstance(child, torch.nn.ModuleList) and len({type(member) for member in child}) == 1:
            layers += child
        else:
            layers += find_layers(child)
    return layers


def freeze(model: torch.nn.Module, trained: str) -> None:
    """Leave only the head, and perhaps the last layers, to be trained.

    The head is what transformers puts on a base model. Weights that the two share belong to the base model.

    Args:
        model: of transformers, changed in place.
        trained: `all`, `head`, or `layers:N` for the last N layers and the head.

    Raises:
        LaunchFailed: nothing is left to be trained, or the model has fewer layers.
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
