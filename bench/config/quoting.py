"""Texts on a command line, such as paths, in quotes for Hydra, whose grammar knows few characters."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException

from bench.config.schema import Config
from bench.config.track import Track


def quote_texts(overrides: Sequence[str]) -> list[str]:
    """Quote the values that are texts and that Hydra would refuse, or would read as a number.

    `results_dir=/tmp/möbel` becomes `results_dir="/tmp/möbel"`. Between commas are values of a sweep.
    """
    return [_quote(override) for override in overrides]


def tracking_overrides(track: Track) -> list[str]:
    """The overrides that choose these trackers and set them."""
    settings = {"track.folder": track.folder} | {
        f"track.{name}.{key}": value
        for name in track.names
        for key, value in dataclasses.asdict(getattr(track, name)).items()
    }
    return [f"track=[{','.join(track.names)}]"] + [
        f"{key}={'null' if value is None else QuotedString(value, Quote.double).with_quotes()}"
        for key, value in settings.items()
    ]


def _quote(override: str) -> str:
    key, _, value = override.partition("=")
    if not _takes_any_text(key.lstrip("+")) or value.startswith(("'", '"', "[", "{")):
        return override
    try:
        parsed = OverridesParser.create().parse_override(override)
        if parsed.is_sweep_override() or not isinstance(parsed.value(), int | float):
            return override
    except HydraException:
        pass
    texts = [re.sub("^~(?=/|$)", str(Path.home()), text) for text in value.split(",")]
    return f"{key}={','.join(QuotedString(text, Quote.double).with_quotes() for text in texts)}"


def _takes_any_text(key: str) -> bool:
    """Whether the configuration has text at this dotted key."""
    kind: Any = Config
    for name in key.split("."):
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
        else:
            kind = get_type_hints(kind).get(name) if dataclasses.is_dataclass(kind) else None
    return kind in (str, str | None)
