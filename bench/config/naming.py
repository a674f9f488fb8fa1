"""The name of a comparison's results file: one comparison, one name, and no two with the same.

`<model>-<device>x<world_size>[-<override>,<override>…]`. Everything but letters, digits, `.`, `_`
and, in values, `-` is percent-encoded: the separators (`-` before the overrides, `,` between them,
`=` in them) cannot occur in what they separate, and no name leaves its folder.
"""

import hashlib
import json
import re
import shlex
from typing import Any
from urllib.parse import quote

from hydra.core.override_parser.overrides_parser import OverridesParser

from bench.config.choices import RENDEZVOUS
from bench.config.schema import Config
from bench.setup.recipes import STACKS

LONGEST = 120
"""Characters of a name; a longer one is cut, and a hash of the whole replaces the rest."""

UNMEASURED = (
    *("device", "device.world_size", "results_dir", "reports_dir", "resume"),
    *(f"device.{setting}" for setting in RENDEZVOUS),
)
"""Overrides that do not appear in a name: they change nothing that is measured, or the name says it already.
Those of `measure` do not appear either, except for measure.batch=max, measure=converge and parity alone."""

DEFAULT_STACK = next(iter(STACKS))
"""The stack that names leave out."""

_DELETED = object()


def file_stem(
    config: Config, device_short_name: str, overrides: list[str], stack: str = DEFAULT_STACK
) -> str:
    """Return the name of the results file without its ending.

    Args:
        config: what the overrides were composed into.
        device_short_name: `cpu`, or the GPU's (`h200`).
        overrides: the command line's, in its order; only contradictory ones depend on it.
        stack: that the comparison was started on.
    """
    head = f"{_encoded(config.model.name)}-{device_short_name}x{config.device.world_size}"
    named = "-".join(filter(None, (head, _suffix(config, overrides, stack))))
    if len(named) <= LONGEST:
        return named
    digest = hashlib.sha256(named.encode()).hexdigest()[:12]
    return f"{named[: LONGEST - 1 - len(digest)]}~{digest}"


def repeat_command(overrides: list[str], stack: str = DEFAULT_STACK) -> str:
    """Return the command that repeats a comparison: no settings of Hydra, trackers and the files' places."""
    make, python = "make bench", "python"
    if stack != DEFAULT_STACK:
        make, python = f"make bench STACK={stack}", f"{STACKS[stack].folder}/bin/python"
    kept = [
        override
        for override in overrides
        if not re.match(r"[+~]*(hydra\b|results_dir=|reports_dir=|resume=)", override)
        and not is_about_trackers(override)
    ]
    if not kept:
        return make
    if all(re.fullmatch(r"[\w.,=:+~@/\[\]-]+", override) for override in kept):
        return f'{make} ARGS="{" ".join(kept)}"'
    return f"{python} -m bench {shlex.join(kept)}"


def is_about_trackers(override: str) -> bool:
    """Whether an override chooses or sets trackers, which change nothing that is measured."""
    return re.match(r"[+~]*track[.=]", override) is not None


def _suffix(config: Config, overrides: list[str], stack: str) -> str:
    settings: dict[str, Any] = {}
    for override in OverridesParser.create().parse_overrides(overrides):
        key = override.get_key_element().lstrip("+~")
        if override.is_delete():
            _set(settings, key, _DELETED)
        elif key == "backend":
            settings[key] = None  # the configuration knows which, in which order
        else:
            _set(settings, key, override.value())
    named = [
        _setting(key, value, config) for key, value in settings.items() if _is_measured(key, value, config)
    ]
    if config.measure.batch == "max":
        named.append(_setting("measure.batch", "max", config))
    if not config.measure.launches and any(key.split(".")[0] == "measure" for key in settings):
        named.append(_setting("measure", "parity", config))  # it replaces no file of timed rounds
    if config.measure.evaluate_every is not None:
        named.append(_setting("measure", "converge", config))  # likewise
    if stack != DEFAULT_STACK:
        named.append(_setting("stack", stack, config))
    return ",".join(sorted(named))


def _set(settings: dict[str, Any], key: str, value: Any) -> None:
    """Apply one override as Hydra does: a mapping is merged, anything else replaces what was."""
    if isinstance(value, dict):
        for inner, part in value.items():
            _set(settings, f"{key}.{str(inner).replace('.', '%2E')}", part)
        return
    for replaced in [old for old in settings if old == key or old.startswith(f"{key}.")]:
        del settings[replaced]
    settings[key] = value


def _is_measured(key: str, value: Any, config: Config) -> bool:
    if key == "model":  # a file of another name may hold the same model.name, with other dimensions
        return bool(value != config.model.name)
    group = key.split(".")[0].split("/")[0].split("@")[0]
    return key not in UNMEASURED and group not in ("measure", "track", "hydra")


def _setting(key: str, value: Any, config: Config) -> str:
    written = _encoded(key).replace("-", "%2D")
    if key == "backend":
        return f"{written}={'+'.join(map(_encoded, config.backends))}"
    if value is _DELETED:
        return f"~{written}"
    return f"{written}={_encoded(_text(value))}"


def _text(value: Any) -> str:
    """Different values give different texts: the string "8" keeps its quotes, a word needs none."""
    if isinstance(value, str) and _is_word(value):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_word(text: str) -> bool:
    if not text or text[0] in '"[{' or text in ("true", "false", "null"):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def _encoded(text: str) -> str:
    """Percent-encoded; a leading dot as well, which would hide the file."""
    encoded = quote(text, safe="").replace("~", "%7E")
    return f"%2E{encoded[1:]}" if encoded.startswith(".") else encoded
