"""Make a checked `Config` out of a command line's overrides, by Hydra."""

from collections.abc import Callable, Sequence
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from bench.config import user_model
from bench.config.backend import choose_reference
from bench.config.choices import CONF, LOSS_TOLERANCE
from bench.config.data import Data
from bench.config.measure import MeasureWithStudies
from bench.config.overrides import for_hydra
from bench.config.refusals import as_user_errors
from bench.config.schema import Config
from bench.config.sizes import MINI, PUBLISHED
from bench.machine import hardware
from bench.machine.identity import name_folder
from bench.setup import stacks


def schema() -> DictConfig:
    """Return the types of all settings, those of studies too."""
    types: Any = OmegaConf.structured(Config)
    types.measure = MeasureWithStudies
    return types


def register() -> None:
    """Register with Hydra the schema and the resolvers that `conf/` uses; a second call changes nothing."""
    ConfigStore.instance().store(name="schema", node=schema())
    # Hydra copies its sources for every listing of a group, and this store with them: 90 times in a --help.
    setattr(ConfigStore, "__deepcopy__", lambda store, _copied: store)  # noqa: B010 (mypy has no such method)
    resolvers: dict[str, Callable[..., object]] = {
        "default_device": hardware.default_device,
        "default_model": default_model,
        "user_model_name": user_model.name_model,
        "user_model_task": user_model.find_task,
        "user_model_length": user_model.length,
        "mini_size": lambda pretrained, module: (
            MINI if module is None and user_model.is_random(pretrained) else PUBLISHED
        ),
        "full_lengths": lambda module, data: (
            "full" if (module, data) == (None, "synthetic") else Data.lengths
        ),
        "default_precision": default_precision,
        "default_backends": default_backends,
        "default_reference": choose_reference,
        "cpu_ranks": lambda nodes: max(1, int(nodes)) * min(2, hardware.available_cores()),
        # At least 1, so that a machine without a GPU is refused in a sentence about GPUs.
        "gpu_ranks": lambda nodes: max(1, int(nodes)) * max(1, hardware.available_gpus()),
        "threads": lambda ranks, nodes: max(
            1, min(8, hardware.available_cores() // max(1, int(ranks) // max(1, int(nodes))))
        ),
        "launches": lambda schedule, together: 2 * together if schedule == "sequential" else together,
        "schedule": lambda device, batch: (
            "sequential" if (device, batch) == ("cuda", "max") else "interleaved"
        ),
        "block_seconds": lambda device, on_cpu, on_cuda=2: on_cuda if device == "cuda" else on_cpu,
        "at_most": lambda value, size, most: min(value, most) if value and size == "mini" else value,
        "parity_tolerance": lambda precision: LOSS_TOLERANCE.get(precision, 1e-4),
        "warmup_steps": lambda device: 10 if device == "cuda" else 2,
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


def default_model(device: str | None) -> str:
    """Return the name of a model that fills a GPU, or one that a CPU trains in little time."""
    return "bert-large" if _on_cuda(device) else "bert-mini"


def default_backends(device: str | None) -> str:
    """Return the choice of `backend` for the stack that runs this, on this device."""
    return "default" if stacks.own() == "ort" else "today_gpu" if _on_cuda(device) else "today"


def default_precision(device: str | None) -> str:
    """Return the hardware's, but fp16 for bf16 where ONNX Runtime trains.

    Its GELU has no bf16 kernels on GPUs: https://github.com/microsoft/onnxruntime/issues/19502
    """
    precision = hardware.default_precision(device or hardware.default_device())
    return "fp16" if precision == "bf16" and stacks.own() == "ort" else precision


def compose(overrides: Sequence[str] = ()) -> Config:
    """Return the configuration that `python -m bench` would run with these overrides; refuses the same."""
    register()
    with as_user_errors(), hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return load(hydra.compose("config", for_hydra(overrides)))


def load(cfg: DictConfig) -> Config:
    """Return the configuration, or refuse what is wrong in it; nothing beyond this sees a DictConfig."""
    with as_user_errors():
        config = OmegaConf.to_object(cfg)
    assert isinstance(config, Config)
    return config
