"""The typed configuration: what `conf/` composes into, checked once, before any work starts.

Every dataclass refuses what is impossible in itself and names the dotted key; `Config` refuses what
its parts make of each other, `check_machine` and `check_packages` what this machine cannot do.
`load` is the only way from Hydra's DictConfig to a `Config`; nothing beyond it knows of Hydra.
"""

import dataclasses
import difflib
import functools
import importlib.metadata
import importlib.util
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import yaml  # type: ignore[import-untyped]
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from bench.errors import UserError
from bench.telemetry.gpus import visible_gpus

CONF = Path(__file__).resolve().parents[1] / "conf"
"""The shipped configuration files."""

ENGINES = ("eager", "ortmodule")
OPTIMIZERS = ("adamw", "adamw_fused", "ort_fused_adam")
SHARDINGS = ("ddp", "zero1")
TASKS = ("masked-lm", "causal-lm")
ATTENTIONS = ("eager", "sdpa")
PRECISIONS = ("fp32", "tf32")
DEVICES = ("cpu", "cuda")
ALLOCATORS = ("tuned", "system")
RESIDENTS = ("all", "one")


def one_of(key: str, value: str, known: tuple[str, ...]) -> None:
    """Raise UserError unless `value` is one of `known`."""
    if value not in known:
        raise UserError(f"{key}={value} is not known; choose one of: {', '.join(known)}.")


def at_least(key: str, value: float, least: float) -> None:
    """Raise UserError unless `value` >= `least`, and finite."""
    if not least <= value < math.inf:
        raise UserError(f"{key} must be at least {least}, not {value}.")


def above_zero(key: str, value: float) -> None:
    """Raise UserError unless `value` > 0, and finite."""
    if not 0 < value < math.inf:
        raise UserError(f"{key} must be above 0, not {value}.")


@dataclass(kw_only=True)
class Model:
    """A published architecture, built from its configuration without a download."""

    name: str
    task: str
    architecture: str  # transformers' model_type, e.g. "bert"
    config: dict[str, Any]  # what differs from the architecture's default configuration
    parameters: int  # the published count, with tied weights counted once
    source: str  # where the dimensions were published
    micro_batch: int  # per rank, as published or customary
    seq_len: int
    pretrained: str | None = None  # a hub id or a folder; random weights from `config` when None

    def __post_init__(self) -> None:
        one_of("model.task", self.task, TASKS)
        at_least("model.parameters", self.parameters, 1)

    def positions(self) -> int | None:
        """The longest sequence that the position embeddings allow, where `config` tells."""
        return self.config.get("max_position_embeddings", self.config.get("n_positions"))


@dataclass(kw_only=True)
class Backend:
    """Three independent choices; a backend is data. `Config`, which knows its name, checks it."""

    engine: str
    optimizer: str
    sharding: str

    def optimizer_on(self, device: str) -> str:
        """The optimizer that runs on `device`.

        ORT's FusedAdam has no CPU kernel; torch's fused AdamW, which has one, stands in for it.
        """
        if self.optimizer == "ort_fused_adam" and device == "cpu":
            return "adamw_fused"
        return self.optimizer


@dataclass(kw_only=True)
class Data:
    """Synthetic batches of a fixed length, padded like real text."""

    name: str
    batches: int  # distinct micro-batches per rank, cycled through
    min_length_share: float  # lengths are uniform between this share of seq_len and all of it

    def __post_init__(self) -> None:
        one_of("data.name", self.name, ("synthetic",))
        at_least("data.batches", self.batches, 2)
        if not 0 < self.min_length_share <= 1:
            raise UserError(
                f"data.min_length_share must be above 0 and at most 1, not {self.min_length_share}."
            )


@dataclass(kw_only=True)
class Adam:
    """What every optimizer of a comparison gets: AdamW, its weight decay decoupled."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float

    def __post_init__(self) -> None:
        at_least("adam.lr", self.lr, 0)
        at_least("adam.eps", self.eps, 0)
        at_least("adam.weight_decay", self.weight_decay, 0)
        for key, beta in (("adam.beta1", self.beta1), ("adam.beta2", self.beta2)):
            if not 0 <= beta < 1:
                raise UserError(f"{key} must be at least 0 and below 1, not {beta}.")


@dataclass(kw_only=True)
class Measure:
    """How long and how often is measured."""

    launches: int
    rounds: int
    block_seconds: float
    warmup_steps: int  # after the first step, per launch
    resident: str  # all: every group stays alive, rounds rotate; one: one group at a time
    parity_steps: int
    parity_tolerance: float  # relative, on the loss of every parity step
    margin: float  # a speed-up inside ± margin is called `same`
    timeout_s: float  # the longest that a group may take for one thing it was asked

    def __post_init__(self) -> None:
        one_of("measure.resident", self.resident, RESIDENTS)
        at_least("measure.launches", self.launches, 1)
        at_least("measure.rounds", self.rounds, 1)
        at_least("measure.warmup_steps", self.warmup_steps, 1)
        at_least("measure.parity_steps", self.parity_steps, 2)
        at_least("measure.timeout_s", self.timeout_s, 1)
        for key in ("block_seconds", "parity_tolerance", "margin"):
            above_zero(f"measure.{key}", getattr(self, key))


@dataclass(kw_only=True)
class Device:
    """What the ranks run on."""

    type: str
    world_size: int
    threads: int  # per rank
    allocator: (
        str  # tuned: the same glibc malloc settings for all workers; system: glibc's defaults
    )

    def __post_init__(self) -> None:
        one_of("device.type", self.type, DEVICES)
        one_of("device.allocator", self.allocator, ALLOCATORS)
        at_least("device.world_size", self.world_size, 1)
        at_least("device.threads", self.threads, 1)


@dataclass(kw_only=True)
class Precision:
    """Number formats of the matrix products."""

    name: str

    def __post_init__(self) -> None:
        one_of("precision.name", self.name, PRECISIONS)


@dataclass(kw_only=True)
class Config:
    """One comparison: one workload under several backends."""

    model: Model
    backends: dict[str, Backend]
    reference: str
    data: Data
    precision: Precision
    adam: Adam
    measure: Measure
    device: Device
    micro_batch: int
    grad_accum: int
    seq_len: int
    attention: str
    seed: int
    results_dir: str
    reports_dir: str

    def __post_init__(self) -> None:
        for name, backend in self.backends.items():
            one_of(f"backends.{name}.engine", backend.engine, ENGINES)
            one_of(f"backends.{name}.optimizer", backend.optimizer, OPTIMIZERS)
            one_of(f"backends.{name}.sharding", backend.sharding, SHARDINGS)
        one_of("attention", self.attention, ATTENTIONS)
        at_least("micro_batch", self.micro_batch, 1)
        at_least("grad_accum", self.grad_accum, 1)
        at_least("seq_len", self.seq_len, 8)
        at_least("seed", self.seed, 0)
        if self.reference not in self.backends:
            raise UserError(
                f"reference={self.reference} is not among the chosen backends "
                f"({', '.join(self.backends) or 'none'}); "
                "add it to backend=[…] or choose another reference."
            )
        if self.precision.name == "tf32" and self.device.type == "cpu":
            raise UserError("precision=tf32 exists on CUDA devices only; choose precision=fp32.")
        positions = self.model.positions()
        if positions is not None and self.seq_len > positions:
            raise UserError(
                f"seq_len={self.seq_len} is longer than the {positions} positions of "
                f"model.name={self.model.name}; choose a shorter one."
            )


def measured(config: Config) -> dict[str, Any]:
    """What the configuration says about the thing measured: all but where files go."""
    plain = dataclasses.asdict(config)
    del plain["results_dir"], plain["reports_dir"]
    return plain


# --- composing ------------------------------------------------------------------------------------


def register() -> None:
    """Tell Hydra the schema and the resolvers that `conf/` uses; twice is as good as once."""
    ConfigStore.instance().store(name="schema", node=Config)
    resolvers: dict[str, Callable[..., object]] = {
        "default_device": default_device,
        "default_model": lambda device: (
            "bert-large" if (device or default_device()) == "cuda" else "bert-tiny"
        ),
        "cpu_ranks": lambda: min(2, available_cores()),
        # At least 1, so that a machine without a GPU is refused in a sentence about GPUs.
        "gpu_ranks": lambda: max(1, available_gpus()),
        "threads": lambda ranks: max(1, min(8, available_cores() // max(1, int(ranks)))),
        "resident": lambda device: "one" if device == "cuda" else "all",
    }
    for name, resolver in resolvers.items():
        OmegaConf.register_new_resolver(f"bench.{name}", resolver, replace=True)


def default_device() -> str:
    """`cuda` where a GPU is visible, else `cpu`."""
    return "cuda" if available_gpus() else "cpu"


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


@functools.cache
def available_gpus() -> int:
    """How many GPUs are visible; asked once, since some drivers take a second to wake up."""
    return len(visible_gpus())


def compose(overrides: Sequence[str] = ()) -> Config:
    """The configuration that `python -m bench` would run with these overrides.

    Raises:
        UserError: with the sentence that the command line would print.
    """
    register()
    with refusals(overrides):
        check_overrides(overrides)
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            return load(hydra.compose("config", list(overrides)))


def load(cfg: DictConfig) -> Config:
    """The checked configuration; no DictConfig beyond this line.

    Raises:
        UserError: a key is unknown or has no value, or a value is impossible.
    """
    _check_keys(cfg, "")
    with refusals():
        config = OmegaConf.to_object(cfg)
    assert isinstance(config, Config)
    return config


def _check_keys(node: DictConfig, path: str) -> None:
    """Refuse what OmegaConf lets through: a key added with +, and a key deleted with ~."""
    schema = OmegaConf.get_type(node)
    if dataclasses.is_dataclass(schema):
        fields = {field.name: field for field in dataclasses.fields(schema)}
        for key in map(str, node):
            if key not in fields:
                raise UserError(_unknown_key(f"{path}{key}", list(fields)))
        for key, field in fields.items():
            unset = key not in node or OmegaConf.is_missing(node, key)
            if unset and field.default is dataclasses.MISSING:
                raise UserError(_no_value(f"{path}{key}"))
    for key in map(str, node):
        if not OmegaConf.is_missing(node, key) and not OmegaConf.is_interpolation(node, key):
            child = node[key]
            if isinstance(child, DictConfig):
                _check_keys(child, f"{path}{key}.")


# --- checks that need the command line or the machine ---------------------------------------------


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuse overrides of groups that Hydra would accept and silently make something else of.

    Raises:
        UserError: a group is added to, deleted, set to nothing, or to several where it takes one;
            a backend stands twice in the list.
        HydraException: an override cannot be parsed.
    """
    groups = {folder.name for folder in CONF.iterdir() if folder.is_dir()}
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        group, line = override.key_or_group, override.input_line
        if not group:
            raise UserError(f"{line} has no key; write key=value.")
        if group not in groups:
            continue
        if override.is_delete():
            raise UserError(f"{line} would leave no {group}; choose one with {group}=….")
        if override.is_add() or override.is_force_add():
            raise UserError(
                f"{line} would add to the default; name all that you want in {group}=…, without +."
            )
        sweeps = override.is_sweep_override()
        for choice in override.sweep_iterator() if sweeps else [override.value()]:
            _check_choice(group, choice, overrides)


def _check_choice(group: str, choice: Any, overrides: Sequence[str]) -> None:
    if choice is None:
        raise UserError(f"{group}=null chooses nothing; leave it out to get the default.")
    if isinstance(choice, int | float):
        raise UserError(_not_a_choice(group, str(choice).lower(), _choices(group, overrides)))
    if not isinstance(choice, list):
        return
    names = [str(name) for name in choice]
    if group != "backend":
        raise UserError(
            f"{group}=[{','.join(names)}] is a list, but a comparison has one {group}; "
            f"compare several with --multirun {group}={','.join(names)}."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            f"backend=[{','.join(names)}] names {twice} twice, which Hydra would run once; "
            "for an A/A check give it a second name, as backend=[pytorch,pytorch_again] does."
        )


def check_machine(config: Config, *, cores: int, gpus: int) -> None:
    """Refuse more ranks or threads than this machine has GPUs or cores for.

    Raises:
        UserError: with the device.* key to change.
    """
    ranks, threads = config.device.world_size, config.device.threads
    if config.device.type == "cuda" and ranks > gpus:
        remedy = f"set device.world_size={gpus}" if gpus else "choose device=cpu"
        raise UserError(
            f"device.world_size={ranks} needs {_count(ranks, 'GPU')}, "
            f"but this machine shows {gpus}; {remedy}."
        )
    if config.device.type == "cpu" and ranks * threads > cores:
        remedy = (
            f"device.threads={cores // ranks}" if ranks <= cores else f"device.world_size={cores}"
        )
        if ranks > cores and threads > 1:
            remedy += " device.threads=1"
        raise UserError(
            f"device.world_size={ranks} and device.threads={threads} need {ranks * threads} cores, "
            f"but this process has {cores}; set {remedy}."
        )


def check_packages(config: Config) -> None:
    """Refuse backends whose packages are not installed, without importing any.

    Raises:
        UserError: with the command that installs what is missing.
    """
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise UserError(f"{package} is not installed; run `make setup`, or {_install(config)}.")
    for name, backend in config.backends.items():
        optimizer = backend.optimizer_on(config.device.type)
        if backend.engine == "ortmodule" or optimizer == "ort_fused_adam":
            _check_onnxruntime(name, config)
        if backend.sharding == "zero1" and importlib.util.find_spec("deepspeed") is None:
            raise UserError(
                f"backends.{name}.sharding=zero1 needs deepspeed, which is not installed; "
                f"run `make setup`, or {_install(config)}."
            )


def _check_onnxruntime(backend: str, config: Config) -> None:
    """ONNX Runtime's packages share one module, so only their distributions tell them apart."""
    fitting = ["onnxruntime-training"]
    if config.device.type == "cpu":
        fitting.append("onnxruntime-training-cpu")
    if not any(map(_is_installed, fitting)):
        raise UserError(
            f"backends.{backend} needs {' or '.join(fitting)}, which is not installed; "
            f"run `make setup`, or {_install(config)}, "
            "or measure without it: backend=[pytorch,pytorch_zero1]."
        )
    for plain in ("onnxruntime", "onnxruntime-gpu"):
        if _is_installed(plain):
            raise UserError(
                f"{plain} is installed beside ONNX Runtime Training and overwrites its module; "
                f"run `pip uninstall {plain}`, then {_install(config)} with --force-reinstall."
            )


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _install(config: Config) -> str:
    extra = "ort-gpu" if config.device.type == "cuda" else "ort-cpu"
    return f"`pip install '.[{extra}]'`"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


# --- Hydra's and OmegaConf's errors in one sentence -----------------------------------------------


@contextmanager
def refusals(overrides: Sequence[str] = ()) -> Iterator[None]:
    """Turn what Hydra and OmegaConf raise about a configuration into UserError.

    Args:
        overrides: the command line's, to find the choices in the user's own folders, too.
    """
    with warnings.catch_warnings():
        # Hydra only warns of a hydra.searchpath that does not exist.
        warnings.filterwarnings("error", message="provider=.* is not available")
        try:
            yield
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            raise UserError(explain(error, overrides)) from error
        except (
            ValueError,
            OSError,
            UserWarning,
        ) as error:  # what Hydra checks without a class of its own
            raise UserError(explain(error, overrides)) from error


def explain(error: BaseException, overrides: Sequence[str] = ()) -> str:
    """What is wrong with the configuration, and the remedy."""
    for cause in _causes(error):
        if isinstance(cause, UserError):  # raised in a resolver
            return str(cause)
        if isinstance(cause, OverrideParseException):
            return (
                f"{cause.override} is not an override; write key=value, or key=[a,b] for a list, "
                "in quotes if the shell could take offence."
            )
        if isinstance(cause, MissingConfigException) and "/" in (cause.missing_cfg_file or ""):
            group, _, choice = str(cause.missing_cfg_file).rpartition("/")
            return _not_a_choice(group, choice, cause.options or _choices(group, overrides))
        if isinstance(cause, OmegaConfBaseException):
            return _file(error) + _wrong_key(cause)
    if isinstance(error, OSError) and error.filename:  # Hydra could not make its folder
        return f"{error.filename}: {error.strerror}; choose another results_dir."
    message = " ".join(str(error).split()).rstrip(".")
    for pattern, sentence in _SENTENCES.items():
        if found := re.match(pattern, message):
            return sentence.format(*found.groups())
    return f"{message}."


_SENTENCES = {
    r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'": (
        "{0} is a sweep; add --multirun, or write key=[a,b] for a list."
    ),
    r"Could not append to config. An item is already at '([^']+)'": (
        "{0} is set already; write {0}=… without +."
    ),
    r"provider=hydra.searchpath in .*, path=(.*) is not available": (
        "hydra.searchpath: {0} is not a folder."
    ),
}
"""How Hydra's message begins (a pattern) and what we say, where its own words do not help."""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _wrong_key(error: OmegaConfBaseException) -> str:
    key = error.full_key
    what = str(error).splitlines()[0].rstrip(".")
    if not key:
        return f"{what}."
    if isinstance(error, ConfigKeyError | ConfigAttributeError):
        parent = error.parent_node
        if not dataclasses.is_dataclass(error.object_type):
            return _not_in_mapping(key, parent)
        return _unknown_key(key, [str(name) for name in parent if name != "hydra"])
    if wrong := re.match(r"Value '(.*)' of type '.*' could not be converted to (\w+)", what):
        return f"{key} must be {_KINDS.get(wrong[2], wrong[2])}, not {wrong[1]}."
    if "is not Optional" in what:
        return f"{key} must have a value, not null."
    if key == "backends":
        return "backends is made of the chosen files; choose them with backend=[…]."
    return f"{key}: {what[0].lower()}{what[1:]}."


_KINDS = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}


def _unknown_key(key: str, names: list[str]) -> str:
    parent, _, last = key.rpartition(".")
    if not parent:
        names = [*names, "backend", "experiment"]
    close = difflib.get_close_matches(last, names, n=1)
    if close:
        return (
            f"{key} is not a key of the configuration; did you mean {key[: -len(last)]}{close[0]}?"
        )
    where = parent or "the top level"
    return f"{key} is not a key of the configuration; {where} has {', '.join(names)}."


def _not_in_mapping(key: str, mapping: Any) -> str:
    if key.startswith("backends."):
        chosen = ", ".join(map(str, mapping))
        name = key.split(".")[1]
        return f"{key} is not among the chosen backends ({chosen}); add {name} to backend=[…]."
    return f"{key} is not set so far; write +{key}=… to add it."


def _no_value(key: str) -> str:
    if key == "backends":
        return (
            "backend=[] names no backend; choose at least one, as in backend=[pytorch,ortmodule]."
        )
    return f"{key} has no value; set {key}=… or write it in the YAML file."


def _not_a_choice(group: str, choice: str, choices: Iterable[str]) -> str:
    known = ", ".join(choices) or "none"
    return f"{group}={choice} does not exist; choose from: {known}."


def _choices(group: str, overrides: Sequence[str]) -> list[str]:
    searchpath = [text for text in overrides if text.startswith("hydra.searchpath=")]
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        return list(loader.get_group_options(group, config_name="config", overrides=searchpath))


def _file(error: BaseException) -> str:
    """Where a wrong key stands, if it is not on the command line."""
    found = re.match(r"In '([^']+)':", str(error))
    return f"{found[1]}.yaml: " if found else ""
