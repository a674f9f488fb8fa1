"""How a configuration differs from the defaults: names, titles, rows and commands are made of this alone.

The defaults are what conf/ has, on this machine and stack, for the same model, device, backends, data and
precision. So equal configurations differ in the same, however they were typed.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError

from bench.config.choices import CONF, DEFAULT_BACKENDS
from bench.config.compose import default_backends, default_model, default_precision, register, schema
from bench.config.overrides import FREE, SEARCHPATH
from bench.config.schema import Config
from bench.config.user_model import USER_MODEL
from bench.machine import hardware

PLACES = ("results_dir", "reports_dir", "resume", "track")  # they do not change what is measured

_PLAIN = re.compile(
    r"(?!(null|true|false|[+-]?(nan|inf))$|[+.-]*\d)[a-z_./+-][\w./:@+-]*", re.IGNORECASE | re.ASCII
)
"""A text that Hydra reads as one without quotes."""


def overrides_of(config: Config, *, places: bool = False) -> list[str]:
    """Return the overrides that make this configuration again; with `places`, where its files go, too."""
    found = ({SEARCHPATH: config.searchpath} if config.searchpath else {}) | differences(config)
    of_places = {key: value for key, value in found.items() if key.partition(".")[0] in PLACES}
    kept = {key: value for key, value in found.items() if key not in of_places}
    return [format_override(*each) for each in (kept | of_places if places else kept).items()]


def format_override(key: str, value: Any) -> str:
    """Return an override as Hydra reads it; `~key`, which removes a key, has no value."""
    if "@" in key:  # in a dotted key Hydra takes it for its own
        _, backend, setting = key.split(".", 2)
        return f"backends={{{backend}:{{{setting}:{_format(value)}}}}}"
    return key if key.startswith("~") else f"{key}={_format(value)}"


def _format(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{_format(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_format, value))}]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else QuotedString(value, Quote.double).with_quotes()
    return "null" if value is None else str(value).lower()


def differences(config: Config) -> dict[str, Any]:
    """Return what differs from the defaults, by dotted key, choices of files first.

    A key that the defaults have and the configuration lacks begins with `~`.
    """
    register()
    device, model = config.device.type, config.model
    is_user_model = model.architecture is None and (model.pretrained or model.module) is not None
    user_model = USER_MODEL if is_user_model else None  # by default it is chosen where such a model is named
    names, track = _sort(config.backends), config.track.names
    chosen: dict[str, Any] = {"device": device, "model": user_model or model.name, "backend": names}
    chosen |= {"data": config.data.name, "precision": config.precision.name}
    chosen |= {"measure": config.measure.name, "track": track}
    default_choices: dict[str, Any] = {"data": "synthetic", "measure": "default", "track": []}
    default_choices |= {"device": hardware.default_device(), "precision": default_precision(device)}
    backends = OmegaConf.load(CONF / "backend" / f"{default_backends(device)}.yaml").defaults
    default_choices |= {"model": user_model or default_model(device), "backend": _sort(backends)}
    one_file = ("device", "model", "data", "precision", "measure")
    said = _read(CONF / "config.yaml") | {group: _load(group, chosen[group], config) for group in one_file}
    said["measure"] = _load("measure", "default", config) | said["measure"]
    said["backends"] = {name: _load("backend", name, config) for name in names}
    said["track"] = said["track"] | {name: _load("track", name, config) for name in track}
    if not said["model"]:  # in a file of another name: all of it differs
        chosen["model"] = USER_MODEL
    typed = OmegaConf.merge(schema(), said)
    defaults: Any = OmegaConf.create(OmegaConf.to_container(typed, resolve=False))
    found = {group: choice for group, choice in chosen.items() if choice != default_choices[group]}
    wanted = dataclasses.asdict(config)
    del wanted["searchpath"]
    # Values that depend on other values are compared once those are set.
    for computed in (False, True):
        _compare(defaults, wanted, "", found, computed=computed)
    return found


def _sort(backends: Iterable[str]) -> list[str]:
    """Backends in an order that does not depend on how they were typed."""
    places = {name: place for place, name in enumerate(DEFAULT_BACKENDS)}
    return sorted(backends, key=lambda name: (places.get(name, len(places)), name))


def _load(group: str, name: str, config: Config) -> dict[str, Any]:
    """The content of a choice's file; empty if no known folder has it."""
    folders = [*(Path(place.removeprefix("file://")) for place in config.searchpath), CONF]
    files = [file for folder in folders for file in (folder / group).glob("*.yaml")]
    return next((_read(file) for file in files if file.stem == name), {})


@functools.cache
def _read(file: Path) -> dict[str, Any]:
    said: Any = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
    return {key: value for key, value in said.items() if key not in ("defaults", "hydra")}


def _get(defaults: DictConfig, key: str) -> Any:
    """A default; no value is equal to what there is where it is missing, or says why there is none."""
    with suppress(InterpolationResolutionError):
        if key in defaults:
            return defaults[key]
    return _get


def _compare(
    defaults: DictConfig, wanted: Mapping[str, Any], prefix: str, found: dict[str, Any], *, computed: bool
) -> None:
    for key, value in wanted.items():
        if OmegaConf.is_interpolation(defaults, key) and not computed:
            continue
        there, path = _get(defaults, key), f"{prefix}{key}"
        if isinstance(value, Mapping) and isinstance(there, DictConfig):
            _compare(there, value, f"{path}.", found, computed=computed)
        elif there != value:
            is_whole = isinstance(value, float) and value.is_integer() and not FREE.match(path)
            found[path], defaults[key] = int(value) if is_whole else value, value
    if prefix:
        found |= {f"~{prefix}{key!s}": None for key in defaults if key not in wanted}
