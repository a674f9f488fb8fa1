"""`model.size=layers:N`: the published configuration at its published width, with only N of its layers.

The width, heads, vocabulary, positions and patches stay, and with them the shapes of all matrix products.
The rule knows kinds of keys, not models, and imports no torch: the coordinator applies it, too.

What N counts: the layers of the deepest stack. An encoder and a decoder that are equally deep keep N each;
one that is shallower keeps the same share. Stages of a hierarchy (Swin) have N layers together.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.errors import UserError

PREFIX = "layers:"  # begins such a size, before the number

KEY = re.compile(r"^(num_)?(hidden_|encoder_|decoder_)?layers$|^n_layers?$|^depths$")
"""The keys that say how many layers a stack has; `depths` lists those of every stage."""

PAIR = 2  # layers that a stage keeps if N allows: Swin's windows are shifted in every second one


def parse(size: str) -> int | None:
    """Return N of `layers:N`, or refuse it if it is no number; None if the size is of another kind."""
    if not size.startswith(PREFIX):
        return None
    number = size.removeprefix(PREFIX)
    if not re.fullmatch(r"[1-9]\d{0,5}", number):
        raise UserError(f"{size} names no number of layers", "write a whole number from 1, as in layers:6")
    return int(number)


def keys(config: Mapping[str, Any]) -> list[str]:
    """Return the keys of a configuration that say how many layers it has."""
    return [key for key, value in config.items() if KEY.search(key) and value is not None]


def count(config: Mapping[str, Any]) -> int | None:
    """Return the layers of the deepest stack, or of all stages together; None if no key says it."""
    return max((_depth(config[key]) for key in keys(config)), default=None)


def fewest(config: Mapping[str, Any]) -> int | None:
    """Return the smallest N that leaves every stage a layer; None if no key says how many there are."""
    stages = [len(config[key]) for key in keys(config) if _is_stages(config[key])]
    return max(stages, default=1) if count(config) else None


def check(name: str, config: Mapping[str, Any], number: int) -> None:
    """Refuse a number of layers that this model cannot have."""
    published, least = count(config), fewest(config)
    if published is None or least is None:
        raise UserError(
            f"model.size={PREFIX}{number} has nothing to count, since model.config of {name} does not say "
            "how many layers there are",
            "choose published or mini",
        )
    if not least <= number < published:
        raise UserError(
            f"model.size={PREFIX}{number} keeps too few or too many of the {published} layers of {name}",
            f"choose {PREFIX}{least} to {PREFIX}{published - 1}, or published",
        )


def keep(config: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a transformers configuration with N layers, as `check` allows it; all other keys stay."""
    deepest = count(config) or number
    shallow = dict(config)
    for key in keys(config):
        kept = max(1, round(number * _depth(config[key]) / deepest))
        shallow[key] = _share_among_stages(kept, config[key]) if _is_stages(config[key]) else kept
    return shallow


def _share_among_stages(number: int, depths: Sequence[int]) -> list[int]:
    """Return how many of `number` layers each stage gets: one, then a pair, then what is left by depth.

    The deepest stages come first where there is not enough for all, and the first of equally deep ones.
    """
    kept = [0] * len(depths)
    by_depth = sorted(range(len(depths)), key=lambda stage: -depths[stage])
    for wanted in (1, PAIR):
        for stage in by_depth:
            if sum(kept) < number and kept[stage] < min(wanted, depths[stage]):
                kept[stage] += 1
    beyond = [depth - of_stage for depth, of_stage in zip(depths, kept, strict=True)]
    left = number - sum(kept)
    shares = [left * more / max(1, sum(beyond)) for more in beyond]
    kept = [of_stage + int(share) for of_stage, share in zip(kept, shares, strict=True)]
    for stage in sorted(by_depth, key=lambda stage: int(shares[stage]) - shares[stage]):
        if sum(kept) < number and kept[stage] < depths[stage]:
            kept[stage] += 1
    return kept


def _is_stages(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _depth(value: Any) -> int:
    return sum(value) if _is_stages(value) else int(value)
