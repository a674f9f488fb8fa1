"""Make a checked `Config` out of a command line's overrides, by Hydra."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from bench.config import own
from bench.config.backend import choose_reference
from bench.config.choices import CONF, LOSS_TOLERANCE
from bench.config.data import Data
from bench.config.quoting import quote_texts
from bench.config.refusals import as_user_errors, choices_of, not_a_choice, unknown_key
from bench.config.schema import Config
from bench.config.sizes import MINI, PUBLISHED
from bench.config.track import TRACKERS
from bench.errors import UserError
from bench.machine import hardware, processor
from bench.machine.identity import name_folder
from bench.setup import stacks

FIRST_PORT, PORT_COUNT = 20_000, 10_000
"""A job's port is the first plus its id modulo the count; Linux gives those from 32768 on to others."""


def register() -> None:
    """Register with Hydra the schema and the resolvers that `conf/` uses; a second call changes nothing."""
    ConfigStore.instance().store(name="schema", node=Config)
    # Hydra copies its sources for every listing of a group, and this store with them: 90 times in a --help.
    setattr(ConfigStore, "__deepcopy__", lambda store, _copied: store)  # noqa: B010 (mypy has no such method)
    resolvers: dict[str, Callable[..., object]] = {
        "default_device": hardware.default_device,
        "default_model": lambda device: "bert-large" if _on_cuda(device) else "bert-mini",
        "own_name": own.name_model,
        "own_task": own.find_task,
        "own_length": own.length,
        "mini_size": lambda pretrained, module: (
            MINI if module is None and own.is_random(pretrained) else PUBLISHED
        ),
        "full_lengths": lambda module, data: (
            "full" if (module, data) == (None, "synthetic") else Data.lengths
        ),
        "default_precision": _default_precision,
        "default_backends": lambda device: (
            "default" if stacks.own() == "ort" else "today_gpu" if _on_cuda(device) else "today"
        ),
        "default_reference": choose_reference,
        "cpu_ranks": lambda nodes: max(1, int(nodes)) * min(2, hardware.available_cores()),
        # At least 1, so that a machine without a GPU is refused in a sentence about GPUs.
        "gpu_ranks": lambda nodes: max(1, int(nodes)) * max(1, hardware.available_gpus()),
        "threads": lambda ranks, nodes: max(
            1, min(8, hardware.available_cores() // max(1, int(ranks) // max(1, int(nodes))))
        ),
        "rdzv_endpoint": lambda nodes: slurm_endpoint() if int(nodes) > 1 else None,
        "blas_choices": processor.blas_choices_here,
        "launches": lambda resident, together: 2 * together if resident == "one" else together,
        "resident": lambda device, batch: "one" if (device, batch) == ("cuda", "max") else "all",
        "block_seconds": lambda device, on_cpu, on_cuda=2: on_cuda if device == "cuda" else on_cpu,
        "at_most": lambda value, size, most: min(value, most) if value and size == "mini" else value,
        "parity_tolerance": lambda precision: LOSS_TOLERANCE.get(precision, 1e-4),
        "warmup_steps": lambda device: 10 if device == "cuda" else 3,
        "machine": name_folder,
        "timeout_s": lambda device: 3600 if device == "cuda" else 900,
        "preheat_s": lambda device: 10.0 if device == "cuda" else 0.0,
        "block_warmup_s": lambda device: 0.2 if device == "cuda" else 0.0,
        "min_steps": lambda device: 10 if device == "cuda" else 1,
    }
    for name, resolver in resolvers.items():
        OmegaConf.register_new_resolver(f"bench.{name}", resolver, replace=True)


def _on_cuda(device: str | None) -> bool:
    return (device or hardware.default_device()) == "cuda"


def _default_precision(device: str | None) -> str:
    """The hardware's, but fp16 for bf16 where ONNX Runtime trains: its GELU has no bf16 kernels on GPUs.

    https://github.com/microsoft/onnxruntime/issues/19502
    """
    usual = hardware.default_precision(device or hardware.default_device())
    return "fp16" if usual == "bf16" and stacks.own() == "ort" else usual


def slurm_endpoint(variables: Mapping[str, str] = os.environ) -> str | None:
    """Return `HOST:PORT` of a SLURM job's first node, the port from the job's id; None outside of a job."""
    if "SLURM_JOB_ID" not in variables:
        return None
    from submitit.slurm.slurm import SlurmJobEnvironment  # takes half a second

    host = SlurmJobEnvironment().hostnames[0]
    return f"{host}:{FIRST_PORT + int(variables['SLURM_JOB_ID']) % PORT_COUNT}"


def compose(overrides: Sequence[str] = ()) -> Config:
    """Return the configuration that `python -m bench` would run with these overrides; refuses the same."""
    register()
    overrides = own.choose_own(quote_texts(overrides))
    with as_user_errors(overrides):
        check_overrides(overrides)
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            return load(hydra.compose("config", overrides))


def load(cfg: DictConfig) -> Config:
    """Return the configuration, or refuse what is wrong in it; nothing beyond this sees a DictConfig."""
    _check_keys(cfg, "")
    with as_user_errors():
        config = OmegaConf.to_object(cfg)
    assert isinstance(config, Config)
    return config


def _check_keys(node: DictConfig, path: str) -> None:
    """Refuse what OmegaConf lets through: a key that is added with + and that the schema does not have."""
    schema = OmegaConf.get_type(node)
    keys: list[Any] = list(node)  # numbers, too, in a mapping without a schema
    if dataclasses.is_dataclass(schema):
        known = [field.name for field in dataclasses.fields(schema)]
        for key in keys:
            if key not in known:
                raise UserError(unknown_key(f"{path}{key}", known))
    for key in keys:
        if not OmegaConf.is_missing(node, key) and not OmegaConf.is_interpolation(node, key):
            child = node[key]
            if isinstance(child, DictConfig):
                _check_keys(child, f"{path}{key}.")


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuse overrides of groups that Hydra would accept, but take for something else.

    HydraException if an override cannot be parsed.
    """
    groups = {folder.name for folder in CONF.iterdir() if folder.is_dir()}
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    _check_trackers({override.key_or_group: override.value() for override in parsed})
    for override in parsed:
        group = override.key_or_group
        if group == "hydra.searchpath":
            _check_names(override.value())
        if group not in groups:
            continue
        sweeps = override.is_sweep_override()
        for choice in override.sweep_iterator() if sweeps else [override.value()]:
            _check_choice(group, choice, overrides)


def _check_names(places: Sequence[Any]) -> None:
    """Refuse a file in a user's folder that Hydra would not read, since it reads the shipped one first."""
    for folder in (Path(str(place).removeprefix("file://")) for place in places):
        for file in folder.glob("*/*.yaml"):
            if (CONF / file.relative_to(folder)).exists():
                raise UserError(
                    f"{file} is not read, since a shipped file has its name", "give it another name"
                )


def _check_trackers(values: Mapping[str, Any]) -> None:
    """Refuse a setting of a tracker that is not chosen, which OmegaConf answers with an assertion."""
    if "experiment" in values:  # which may choose it
        return
    chosen = values.get("track", [])
    names = chosen if isinstance(chosen, list) else [chosen]
    for key in values:
        group, _, setting = key.partition(".")
        name = setting.partition(".")[0]
        if group == "track" and name in TRACKERS and name not in map(str, names):
            raise UserError(
                f"track.{name} is not chosen", f"choose it with track={name}, or with track=[…] beside others"
            )


def _check_choice(group: str, choice: Any, overrides: Sequence[str]) -> None:
    if choice is None:
        remedy = "leave it out, or write track=[]" if group == "track" else "leave it out to get the default"
        raise UserError(f"{group}=null chooses nothing", remedy)
    if isinstance(choice, int | float):
        raise UserError(not_a_choice(group, str(choice).lower(), choices_of(group, overrides)))
    several = ("backend", "track")  # of which a comparison may have several
    if isinstance(choice, list) and group not in several:
        names = ",".join(map(str, choice))
        raise UserError(
            f"{group}=[{names}] is a list, but a comparison has one {group}",
            f"compare several with --multirun {group}={names}",
        )
