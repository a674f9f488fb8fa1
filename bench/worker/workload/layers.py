"""Finds the layers of which a model has many."""

import torch


def find_layers(module: torch.nn.Module) -> list[torch.nn.Module]:
    """The model's repeated layers: the members of every ModuleList that are all of one class.

    So transformers builds its encoders and decoders. Lists inside such a layer, of experts for one, are part
    of it.
    """
    found: list[torch.nn.Module] = []
    for child in module.children():
        if isinstance(child, torch.nn.ModuleList) and len({type(member) for member in child}) == 1:
            found += child
        else:
            found += find_layers(child)
    return found
