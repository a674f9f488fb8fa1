"""`model.size`: what is trained of a published configuration: all, a miniature, or some of its layers."""

from collections.abc import Mapping
from typing import Any

from bench.config import layers, mini
from bench.config.choices import CONF
from bench.errors import UserError

PUBLISHED, MINI = "published", "mini"

CHANGED = "changed"  # in results, the size of a shipped model whose file's configuration the user has changed

OF_LABELS = {"num_labels", "problem_type"}
"""Keys that fit a head to a user's labels; the model is the published one with any of them."""


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


def check_mini(name: str, config: Mapping[str, Any]) -> None:
    """Refuse changes of a shipped model that would not change its miniature."""
    shipped, small = read_shipped(name), mini.shrink(config)
    for key, value in config.items():
        if shipped and value != shipped["config"].get(key) and small[key] != value:
            raise UserError(
                f"model.config.{key}={value} has no effect with model.size={MINI}, which has {small[key]}",
                "leave one of them out",
            )


def resize(config: Mapping[str, Any], size: str) -> dict[str, Any]:
    """Return the published configuration at a size that `check_size` allows; the argument stays as it is."""
    number = layers.parse(size)
    if number is not None:
        return layers.keep(config, number)
    return mini.shrink(config) if size == MINI else dict(config)


def read_shipped(name: str) -> dict[str, Any] | None:
    """Return the content of conf/model/NAME.yaml; None without that file, or if it names no model itself."""
    from omegaconf import OmegaConf  # not for `make doctor`, which runs where nothing is installed

    file = CONF / "model" / f"{name}.yaml"
    said: Any = OmegaConf.to_container(OmegaConf.load(file)) if file.exists() else {}
    return said if said.get("name") == name else None


def is_changed(shipped: Mapping[str, Any], architecture: str | None, config: Mapping[str, Any]) -> bool:
    """Whether a model with a shipped file's name differs from the file."""
    known = shipped["config"]
    changed = {key for key in known.keys() | config.keys() if known.get(key) != config.get(key)}
    return architecture != shipped["architecture"] or not changed <= OF_LABELS
