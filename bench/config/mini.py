"""`model.size=mini`: one rule that makes any published configuration small enough for a CPU.

The architecture stays: its class, its stages, its experts, its patches and windows, its positions, and how
many query heads share a key. Layers, width, heads and vocabulary shrink. The rule knows kinds of keys, not
models, and imports no torch: the coordinator applies it, too.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from bench.config import layers

LAYERS = 2  # the most of every stack or stage; a single one would hide what happens between two
WIDTH = 128  # the approximate width of the widest stage's residual stream: BERT-Tiny's (arXiv:1908.08962)
VOCABULARY = 1024  # the most words; a published vocabulary would be nine tenths of so small a model

_STREAMS = ("hidden_size", "d_model", "n_embd", "dim")
_WIDTHS = re.compile(
    r"(^|_)(hidden_sizes?|intermediate_size|embedding_size|d_model|d_ff|n_embd|n_inner|dim)$"
)
_HEADS = re.compile(r"(^|_)(n_heads?|heads)$")
_SHARED_HEADS = "num_key_value_heads"
_HEAD_WIDTHS = re.compile(r"^(head_dim|d_kv|attention_head_size|rotary_dim)$")
_ROTARY_SHARES = re.compile(r"^(partial_rotary_factor|rotary_pct)$")
_TOKENS = re.compile(r"(^|_)(token_ids?|suppress_tokens)$")


def shrink(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration of transformers with fewer layers, heads and words, and narrower."""
    words = min(config.get("vocab_size", VOCABULARY), VOCABULARY)
    small = dict(config)
    for key, value in config.items():
        if layers.KEY.search(key):
            small[key] = _each(value, lambda depth: min(depth, LAYERS))
        elif key == "vocab_size":
            small[key] = words
        elif _TOKENS.search(key):
            small[key] = _each(value, lambda token: token % words if token >= 0 else token)
    factor = round(_width(config) / WIDTH)
    if factor > 1:
        _narrow(small, factor)
    return small


def _narrow(small: dict[str, Any], factor: int) -> None:
    """Divide every width by about `factor`, and the heads with it."""
    heads = {key: value for key, value in small.items() if _HEADS.search(key) and value}
    small |= {key: _fewer(value, heads.get(_SHARED_HEADS, value), factor) for key, value in heads.items()}
    most = max((small[key] for key in heads if isinstance(small[key], int)), default=1)
    step = 8 * most  # heads as wide as a multiple of 8 have an even quarter, which rotary positions may take
    for key, value in small.items():
        if _HEAD_WIDTHS.search(key):
            continue
        if _WIDTHS.search(key):
            small[key] = _each(value, lambda width: max(1, round(width / factor / step)) * step)
        elif _ROTARY_SHARES.search(key) and value:
            small[key] = math.ceil(4 * value) / 4
    for key, value in small.items():
        if _HEAD_WIDTHS.search(key) and value:
            small[key] = int(_width(small)) // most


def _width(config: Mapping[str, Any]) -> float:
    """Return the width of the residual stream (the widest stage), or 0 if no key says it."""
    for key in _STREAMS:
        if key in config:
            return float(config[key])
    if "hidden_sizes" in config:
        return float(max(config["hidden_sizes"]))
    # Swin's kind of hierarchy: every stage is twice as wide as the one before.
    return float(config.get("embed_dim", 0) * 2 ** (len(config.get("depths", [0])) - 1))


def _fewer(heads: Any, shared: Any, factor: int) -> Any:
    """Divide the number of heads by `factor`; as many as before share each of the `shared` ones.

    At least two shared ones are left, so that the query heads still have a choice; a list of stages may have
    one each, since narrow stages have few.
    """
    if not isinstance(heads, int):
        return _each(heads, lambda count: max(1, round(count / factor)))
    return heads // shared * min(shared, max(2, round(shared / factor)))


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    return [change(number) for number in value] if isinstance(value, list | tuple) else change(value)
