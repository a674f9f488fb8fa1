"""`model.size`: what is trained of a published configuration: all, a miniature, or some of its layers."""

from collections.abc import Mapping
from typing import Any

from bench.config import layers, mini
from bench.errors import UserError

PUBLISHED, MINI = "published", "mini"


def check_size(name: str, config: Mapping[str, Any], size: str) -> None:
    """Refuse a size that does not exist, or that this model cannot have."""
    number = layers.parse(size)
    if number is not None:
        layers.check(name, config, number)
    elif size not in (PUBLISHED, MINI):
        raise UserError(
            f"model.size={size} is not known",
            f"choose one of: {PUBLISHED}, {MINI}, {layers.PREFIX}N with a number of layers",
        )


def resize(config: Mapping[str, Any], size: str) -> dict[str, Any]:
    """Return the published configuration at a size that `check_size` allows; the argument stays as it is."""
    number = layers.parse(size)
    if number is not None:
        return layers.keep(config, number)
    return mini.shrink(config) if size == MINI else dict(config)
