"""The name of a comparison's results file: one comparison, one name, and no two with the same.

`<model>-<device>x<world_size>[-<words of the overrides>-<hash of the overrides>]`: letters, digits, `_` and
`-`, short enough to read. What was overridden stands in the rows; the name only tells files apart.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser

from bench.config.choices import RENDEZVOUS, USUAL_BACKENDS
from bench.config.overrides import repeatable
from bench.config.own import OWN
from bench.config.quoting import quote_texts
from bench.config.schema import Config
from bench.setup.recipes import STACKS

LONGEST = 60  # characters of a name; what does not fit is left out
DIGITS = 4  # how many of the hash a name ends with

SAID_BY_THEIR_VALUE = ("experiment", "precision", "after", "stack", "measure", "size")
"""Settings whose value alone says enough: bf16, mini."""

MOST_NAMED = 2  # how many of the other backends are named; more are counted

UNMEASURED = (
    *("device", "device.world_size", "machine", "study", "results_dir", "reports_dir", "resume"),
    *(f"device.{setting}" for setting in RENDEZVOUS),
)
"""Overrides that do not appear in a name: they change nothing that is measured, or the name says it already.
Those of `measure` do not appear either, except for measure.batch, measure=converge and parity alone."""

DEFAULT_STACK = next(iter(STACKS))  # the stack that names leave out


def file_stem(config: Config, device: str, overrides: Sequence[str], stack: str = DEFAULT_STACK) -> str:
    """The name of the results file without its ending; the device is `cpu`, or a GPU's `short_name`."""
    head = f"{_words(config.model.name)}-{_words(device)}x{config.device.world_size}"
    settings = _measured_settings(config, overrides, stack)
    if not settings and _words(config.model.name) == config.model.name and len(head) <= LONGEST:
        return head
    named = json.dumps([config.model.name, settings], sort_keys=True, default=str)
    digest = hashlib.sha256(named.encode()).hexdigest()[:DIGITS]
    name = head[: LONGEST - 1 - DIGITS].rstrip("-")
    for words in [_words_of(key, value, config) for key, value in sorted(settings.items())]:
        if words and len(name) + len(words) + DIGITS + 2 <= LONGEST:
            name = f"{name}-{words}"
    return f"{name}-{digest}"


def repeat_command(overrides: Sequence[str], stack: str = DEFAULT_STACK) -> str:
    """Return the command that repeats a comparison: as `repeatable` keeps them."""
    return command_with(repeatable(overrides), stack)


def command_with(kept: Sequence[str], stack: str = DEFAULT_STACK) -> str:
    """Return the command that measures with all of these overrides."""
    make, python = "make bench", "python"
    if stack != DEFAULT_STACK:
        make, python = f"make bench STACK={stack}", f"{STACKS[stack].folder}/bin/python"
    if not kept:
        return make
    if all(re.fullmatch(r"[\w.,=:+~@/\[\]-]+", override) for override in kept):
        return f'{make} ARGS="{" ".join(kept)}"'
    return f"{python} -m bench {shlex.join(kept)}"


def _measured_settings(config: Config, overrides: Sequence[str], stack: str) -> dict[str, Any]:
    """Return the overrides of what is measured, by key."""
    settings: dict[str, Any] = {}
    for override in OverridesParser.create().parse_overrides(quote_texts(overrides)):
        key = override.get_key_element().lstrip("+")
        _set(settings, key, override.value())
    given = {key: value for key, value in settings.items() if _is_measured(key, value, config)}
    if "backend" in given:  # the configuration knows which, in which order
        given["backend"] = list(config.backends)
    if config.measure.batch != "equal":
        given["measure.batch"] = config.measure.batch
    if not config.measure.launches and any(key.split(".")[0] == "measure" for key in settings):
        given["measure"] = "parity"  # it replaces no file of timed rounds
    if config.measure.evaluate_every is not None:
        given["measure"] = "converge"
    if stack != DEFAULT_STACK:
        given["stack"] = stack
    return given


def _set(settings: dict[str, Any], key: str, value: Any) -> None:
    """Apply one override as Hydra does: a mapping is merged, anything else replaces what was."""
    if isinstance(value, dict):
        for inner, part in value.items():
            _set(settings, f"{key}.{str(inner).replace('.', '%2E')}", part)
        return
    is_choice = "." not in key  # of a group, which Hydra makes before it sets any value, wherever it stands
    for replaced in [old for old in settings if old.startswith(f"{key}.") and not is_choice]:
        del settings[replaced]
    settings[key] = value


def _is_measured(key: str, value: Any, config: Config) -> bool:
    if key == "model":  # a file of another name may hold the same model.name, with other dimensions
        return value not in (config.model.name, OWN)
    group = key.split(".")[0].split("/")[0].split("@")[0]
    return key not in UNMEASURED and group not in ("measure", "track", "hydra")


def _words_of(key: str, value: Any, config: Config) -> str:
    """`micro_batch-16`, `blas-full`, `no-hold_threads`, `bf16`; of backends the unusual ones."""
    name = key.rpartition(".")[2]
    if key == "backend":
        unusual = [backend for backend in config.backends if backend not in USUAL_BACKENDS]
        return _words("-".join(unusual)) if len(unusual) <= MOST_NAMED else f"{len(unusual)}-backends"
    if value is False:
        return _words(f"no-{name}")
    if value is True:
        return _words(name)
    value = str(value).rpartition("/")[2]
    return _words(value if name in SAID_BY_THEIR_VALUE else f"{name}-{value}")


def _words(text: str) -> str:
    """In lower case; everything but letters, digits and `_` becomes `-`."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")
