"""Freezes what is not trained: a device often learns no more than the end of a model."""

import torch

from bench.config.layers import parse
from bench.config.model import ALL
from bench.errors import LaunchFailed
from bench.worker.workload.layers import find_layers


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
    if not any(one.requires_grad for one in model.parameters()):
        raise LaunchFailed(
            "unsupported",
            f"model.trained={trained} leaves nothing to be trained: {type(model).__name__} has no weights "
            "but those of its base model; choose model.trained=layers:1",
        )
