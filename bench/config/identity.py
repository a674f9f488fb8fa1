"""What makes two comparisons the same: the part of the configuration that is measured, and its hash."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.config.choices import RENDEZVOUS
from bench.config.content import hash_file, hash_files
from bench.config.data import SHORTEST_SHARE
from bench.config.measure import UNHASHED, Measure
from bench.config.model import ALL
from bench.config.schema import Config
from bench.config.training import GROWTH_STEPS, INITIAL_SCALE
from bench.machine.environment import digest
from bench.study import load_plugin

OF_MEASURING = {"min_steps": 1, "block_warmup_s": 0.0}
OF_A_MODEL = {"trained": ALL, "module": None, "trust_remote_code": False}
OF_A_BACKEND = {
    **{"precision": None, "checkpointing": None, "accumulate": 1, "loop": "bare"},
    **{"workers": None, "pinned_memory": None},
}
"""By part of the configuration, later settings and defaults at which the hash is as before they existed."""

ENDINGS_OF_WEIGHTS = (".json", ".safetensors")  # of the files in a model's folder that decide what is trained


def measured_settings(config: Config) -> dict[str, Any]:
    """Return the settings that decide what is measured: all but where files lie and how long to wait."""
    plain = dataclasses.asdict(config)
    for place in ("results_dir", "reports_dir", "resume", "machine", "study", "track", "searchpath"):
        del plain[place]
    for setting in UNHASHED:
        del plain["measure"][setting]
    of_studies = plain["measure"].keys() - Measure.__dataclass_fields__.keys()
    _leave_out(plain["measure"], OF_MEASURING | dict.fromkeys(of_studies))
    for setting in RENDEZVOUS:
        del plain["device"][setting]
    _leave_out(plain["device"], {"share_cores": False, "link_gbit_per_s": None})
    _leave_out(plain["model"], OF_A_MODEL)
    for backend in plain["backends"].values():
        _leave_out(backend, OF_A_BACKEND)
    # Constants that decide what is measured: with other values it would be another comparison.
    scaled = plain["precision"]["name"] == "fp16"
    plain["precision"]["initial_scale"] = INITIAL_SCALE if scaled else None
    plain["precision"]["growth_steps"] = GROWTH_STEPS if scaled else None
    plain["data"]["min_length_share"] = SHORTEST_SHARE
    return plain


def _leave_out(settings: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    for setting, default in defaults.items():
        if settings[setting] == default:
            del settings[setting]


def config_hash(config: Config) -> str:
    """Return a hash of what is measured: the settings, and the user's weights, code and data.

    The number of launches does not matter unless it is 0: launches can be added later.
    """
    plain: dict[str, Any] = measured_settings(config)
    if plain["measure"]["launches"]:
        plain["measure"]["launches"] = 4  # those of measure=default, whose files keep their hash
    folder, trusted = Path(config.model.pretrained or ""), config.model.trust_remote_code
    if config.model.pretrained and folder.is_dir():
        plain["weights"] = {
            str(path.relative_to(folder)): hash_file(path)
            for path in [*sorted(folder.iterdir()), *(sorted(folder.rglob("*.py")) if trusted else [])]
            if path.suffix in ENDINGS_OF_WEIGHTS or (path.suffix == ".py" and trusted)
        }
    if config.model.module is not None:
        plain["code"] = load_plugin("user_model.file").hash_code(config.model.module)
    for key, place in (("path", config.data.path), ("processor", config.data.processor)):
        if place is not None and Path(place).exists():
            plain[f"files of data.{key}"] = hash_files(Path(place))
    return digest(plain)
