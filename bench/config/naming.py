"""The name of a comparison's results file: one configuration, one name, and no two with the same.

`<model>-<device>x<world_size>[-<words of what differs from the defaults>-<a hash of it>]`: letters, digits,
`_` and `-`, short enough to read. The rows hold all differences; the name only distinguishes files.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from bench.config.choices import DEFAULT_BACKENDS, RENDEZVOUS
from bench.config.differences import PLACES, differences
from bench.config.schema import Config
from bench.setup.recipes import STACKS
from bench.study import find_studies

LONGEST = 60  # characters of a name; what does not fit is left out
DIGITS = 4  # how many of the hash a name ends with

SAID_BY_THEIR_VALUE = ("precision", "stack", "measure", "size")
"""Settings whose value alone says enough: bf16, mini."""

MOST_NAMED = 2  # how many of the other backends are named; more are counted

UNNAMED = (
    *("model", "model.name", "device", "device.world_size", "machine", "study", *PLACES),
    *(f"device.{setting}" for setting in RENDEZVOUS),
)
"""Settings left out: they do not change what is measured, or the name begins with them. Settings of `measure`
are left out, too, except measure.batch=max, measure=converge and parity alone."""

DEFAULT_STACK = next(iter(STACKS))  # the stack that names leave out


def file_stem(config: Config, device: str, stack: str = DEFAULT_STACK) -> str:
    """The name of the results file without its ending; the device is `cpu`, or a GPU's `short_name`."""
    head = f"{_words(config.model.name)}-{_words(device)}x{config.device.world_size}"
    settings = _named_settings(config, stack)
    if not settings and _words(config.model.name) == config.model.name and len(head) <= LONGEST:
        return head
    named = json.dumps([config.model.name, settings], sort_keys=True, default=str)
    digest = hashlib.sha256(named.encode()).hexdigest()[:DIGITS]
    name = head[: LONGEST - 1 - DIGITS].rstrip("-")
    for words in [_words_of(*each) for each in sorted(settings.items())]:
        if words and len(name) + len(words) + DIGITS + 2 <= LONGEST:
            name = f"{name}-{words}"
    return f"{name}-{digest}"


def command_with(overrides: Sequence[str], stack: str = DEFAULT_STACK) -> str:
    """Return the command that measures with these overrides."""
    make, python = "make bench", "python"
    if stack != DEFAULT_STACK:
        make, python = f"make bench STACK={stack}", f"{STACKS[stack].folder}/bin/python"
    if not overrides:
        return make
    if all(re.fullmatch(r"[\w.,=:+~@/\[\]-]+", override) for override in overrides):
        return f'{make} ARGS="{" ".join(overrides)}"'
    return f"{python} -m bench {shlex.join(overrides)}"


def _named_settings(config: Config, stack: str) -> dict[str, Any]:
    named = {
        key: value
        for key, value in differences(config).items()
        if key not in UNNAMED and key.partition(".")[0] not in ("measure", "track")
    }
    if config.measure.batch != "equal":
        named["measure.batch"] = config.measure.batch
    if not config.measure.launches:
        named["measure"] = "parity"  # it replaces no file of timed rounds
    for study in find_studies().values():
        if study.file_word and study.is_wanted(config):
            named["measure"] = study.file_word
    if stack != DEFAULT_STACK:
        named["stack"] = stack
    return named


def _words_of(key: str, value: Any) -> str:
    """`micro_batch-16`, `blas-full`, `no-pin_cores`, `bf16`; of backends those beside the defaults."""
    name = key.rpartition(".")[2]
    if key == "backend":
        more = [backend for backend in value if backend not in DEFAULT_BACKENDS]
        return _words("-".join(more)) if len(more) <= MOST_NAMED else f"{len(more)}-backends"
    if isinstance(value, bool):
        return _words(name if value else f"no-{name}")
    value = str(value).rpartition("/")[2]
    return _words(value if name in SAID_BY_THEIR_VALUE else f"{name}-{value}")


def _words(text: str) -> str:
    """In lower case; everything but letters, digits and `_` becomes `-`."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")
