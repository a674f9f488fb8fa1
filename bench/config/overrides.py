"""Turns the command line into Hydra's overrides: each is parsed once, and refused here or not at all."""

import re
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException

from bench.config.choices import CONF
from bench.config.measure import SATURATING
from bench.config.user_model import KEYS, USER_MODEL
from bench.errors import UserError

SEARCHPATH = "hydra.searchpath"

FREE = re.compile(r"(model\.config|data\.columns|backends\..*\.engine_options)(\.|$)")
"""Beginnings of keys that their mapping may lack so far: Hydra adds them with ++ alone."""


def for_hydra(words: Sequence[str]) -> list[str]:
    """Return the overrides for Hydra: texts that its grammar would refuse in quotes, and what follows.

    A user's model that is named chooses `model=user_model`, unless the words choose a model; and the user's
    folders are added to the configuration. Refuses several values where a comparison has one;
    HydraException if an override cannot be parsed.
    """
    saturating = f"micro_batch={SATURATING}"  # the setting of `measure` that it stands for
    parsed = [_parse(f"measure.batch={SATURATING}" if word == saturating else word) for word in words]
    values = {override.key_or_group: override.value() for _, override in parsed}
    texts = [text for text, _ in parsed]
    for folder in (Path(str(place).removeprefix("file://")) for place in values.get(SEARCHPATH) or []):
        for file in folder.glob("*/*.yaml"):
            if (CONF / file.relative_to(folder)).exists():  # Hydra reads that first
                raise UserError(
                    f"{file} is not read, since a shipped file has its name", "give it another name"
                )
    for text, override in parsed:
        group, sweeps = override.key_or_group, override.is_sweep_override()
        kinds = (str, dict, list) if group in ("backend", "track") else (str, dict)
        choices = override.sweep_iterator() if sweeps else [override.value()]
        if (CONF / group).is_dir() and not all(isinstance(choice, kinds) for choice in choices):
            several = f"compare several with --multirun {group}=…,…, or leave it out to get the default"
            raise UserError(f"{text} is not one choice", f"name one, {several}")
    chosen = [f"model={USER_MODEL}"] if "model" not in values and any(values.get(key) for key in KEYS) else []
    folders = [text.replace(SEARCHPATH, "searchpath", 1) for text in texts if text.startswith(SEARCHPATH)]
    return [*chosen, *texts, *folders]


def _parse(word: str) -> tuple[str, Override]:
    """An override as Hydra takes it. A path on the command line may have characters that its grammar lacks.

    `results_dir=/tmp/möbel` becomes `results_dir="/tmp/möbel"`, and `study=1_0` stays text. Commas separate
    the values of a sweep. Users need not know which keys take a + or ++ before them.
    """
    parser = OverridesParser.create()
    key, sign, value = word.partition("=")
    if sign and not key.startswith("hydra"):
        key = re.sub("^[+]*", "++" * bool(FREE.match(key.lstrip("+"))), key)
        word = f"{key}={value}"
    is_bare = sign and not value.startswith(("'", '"', "[", "{"))
    with suppress(HydraException) if is_bare else nullcontext():
        (parsed,) = parser.parse_overrides([word])
        number = None if parsed.is_sweep_override() else parsed.value()
        if key.startswith(("++", "hydra")) or type(number) not in (int, float) or str(number) == value:
            return word, parsed
    texts = [re.sub("^~(?=/|$)", str(Path.home()), text) for text in value.split(",")]
    word = f"{key}={','.join(QuotedString(text, Quote.double).with_quotes() for text in texts)}"
    return word, parser.parse_overrides([word])[0]
