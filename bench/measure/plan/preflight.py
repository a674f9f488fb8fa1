"""Whether a configuration fits this machine, before any work starts.

What is refused raises a UserError that says what to change or install.
"""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.config import layers, sizes
from bench.config.choices import DEEPSPEED, SIXTEEN_BITS
from bench.config.model import ALL
from bench.config.schema import Config
from bench.errors import UserError, plural
from bench.machine.gpus import short_name, visible_gpus
from bench.machine.hardware import available_cores, memory_bytes
from bench.machine.processor import find_why_full_is_refused
from bench.machine.variables import removed_variables
from bench.measure.plan.preflight_dataset import check_dataset, check_model, check_module
from bench.setup import stacks
from bench.setup.choice import recorded_choice
from bench.setup.recipes import MKL_LIBRARY, STACKS
from bench.study import find_studies, load_plugin

TOKEN_BYTES = 3 * 8  # bytes of a token on the host: its id, its place in the mask and its label, 64 bits each
SCORED = ("causal-lm", "masked-lm", "speech-recognition", "translation")
"""Tasks in which every token gets a score for each word of the vocabulary."""


def check_and_name(config: Config) -> str:
    """Refuse what this machine cannot do; the name of the results file, as `file_stem` makes it."""
    from bench.config.naming import file_stem  # needs Hydra; `make doctor` runs where nothing is installed

    check_studies(config)
    gpus = visible_gpus() if config.device.type == "cuda" else []
    check_machine(config, cores=available_cores(), gpus=len(gpus))
    check_memory(config, host_bytes=memory_bytes())
    check_packages(config)
    print_other_versions(config)
    print_removed_variables(os.environ)
    if config.track.names:
        load_plugin("tracking.track").check(config)
    check_blas(config)
    check_folders(config)
    config.without_gradient = [*check_model(config), *check_dataset(config), *check_module(config)]
    return file_stem(config, short_name(gpus[0].name) if gpus else "cpu", stacks.own())


def check_studies(config: Config) -> None:
    """Refuse a search by a study that has been removed: rows would not be what their names say."""
    answered = {study.command for study in find_studies().values()}
    if config.measure.batch == "max" and "measure.batch=max" not in answered:
        raise UserError("measure.batch=max is answered by no study in bench/studies", "leave it out")


def check_machine(config: Config, *, cores: int, gpus: int) -> None:
    """Refuse more ranks or threads than this machine has GPUs or cores for."""
    device = config.device
    nodes, ranks, threads = device.nnodes, device.ranks_per_node, device.threads
    asked = f"device.world_size={device.world_size}"
    each = "" if nodes == 1 else f" on each of device.nnodes={nodes}"
    if device.type == "cuda" and ranks > gpus:
        elsewhere = "run it where nvidia-smi lists them, or with device=cpu in place of device=cuda or GPUS=…"
        remedy = f"set device.world_size={gpus * nodes}" if gpus else elsewhere
        raise UserError(f"{asked} needs {plural(ranks, 'GPU')}{each}, but this machine shows {gpus}", remedy)
    if ranks * threads > cores and not device.share_cores:
        fewer = f"device.world_size={cores * nodes}"
        remedy = f"device.threads={cores // ranks}" if ranks <= cores else fewer
        if ranks > cores and threads > 1:
            remedy += " device.threads=1"
        raise UserError(
            f"{asked} and device.threads={threads} need {ranks * threads} cores{each}, "
            f"but this process has {cores}",
            f"set {remedy}",
        )


def check_memory(config: Config, *, host_bytes: int) -> None:
    """Refuse a batch whose tokens, what each layer keeps of them and their scores exceed the memory alone.

    This is a lower bound of what training needs: whatever is refused would have failed.
    """
    _check_limits(config, host_bytes)
    tokens = config.micro_batch * (config.seq_len or 1)
    made = config.data.batches if config.data.name == "synthetic" else 0
    batches = max(made, 2 * config.grad_accum)  # as bench.worker.workload.feeds makes them
    needed = batches * tokens * TOKEN_BYTES
    if config.device.type == "cpu":
        needed += tokens * _least_of_a_token(config)
    needed *= config.device.ranks_per_node
    if needed > host_bytes:
        keys = {
            "micro_batch": config.micro_batch,
            "grad_accum": config.grad_accum,
            "data.batches": config.data.batches,
        }
        largest = max(keys, key=lambda key: keys[key])
        ranks = plural(config.device.ranks_per_node, "rank")
        raise UserError(
            f"{batches} batches of micro_batch={config.micro_batch} and seq_len={config.seq_len} need at "
            f"least {needed / 2**30:,.0f} GiB on {ranks}, but this machine has "
            f"{host_bytes / 2**30:,.0f}",
            f"choose a smaller {largest} than {keys[largest]}",
        )


def _least_of_a_token(config: Config) -> int:
    """Bytes that the reference's training keeps of a token at least: each layer's input, and all scores."""
    model = sizes.resize(config.model.dimensions, config.model.size)
    words = model.get("vocab_size") if config.model.task in SCORED else 0
    numbers = words if isinstance(words, int) else 0
    if config.model.trained == ALL:  # a frozen layer keeps nothing
        width = next((model[key] for key in ("hidden_size", "d_model", "n_embd", "dim") if key in model), 0)
        numbers += width * (layers.count(model) or 0)
    size = 2 if config.precision_of(config.reference).name in SIXTEEN_BITS else 4
    return size * numbers // config.backends[config.reference].accumulate


def _check_limits(config: Config, host_bytes: int) -> None:
    """Refuse a memory limit that the backends alive at the same time cannot all use up."""
    limit, backends, nodes = config.device.memory_limit_gib, len(config.backends), config.device.nnodes
    host_bytes *= nodes  # the limit is of all ranks of a backend together
    together = backends if config.measure.schedule == "interleaved" else 1
    if config.measure.batch == "max" and limit is not None and limit * together * 2**30 > host_bytes:
        alone = "" if together == 1 else ", or measure.schedule=sequential"
        raise UserError(
            f"device.memory_limit_gib={limit:g} for each of {plural(together, 'backend')} at a time is more "
            f"than the {host_bytes / 2**30:.0f} GiB of {'this machine' if nodes == 1 else 'all nodes'}",
            f"set device.memory_limit_gib={max(0.1, int(8 * host_bytes / 2**30 / together) / 10):g}{alone}",
        )


def check_folders(config: Config) -> None:
    """Refuse folders that cannot be written to, or that are the same one, before any work starts."""
    if Path(config.results_dir).absolute() == Path(config.reports_dir).absolute():
        raise UserError(
            f"reports_dir={config.reports_dir} is results_dir, too: reports would be read as results",
            "choose another folder",
        )
    for key in ("results_dir", "reports_dir"):
        folder = Path(getattr(config, key))
        try:
            there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
            with tempfile.TemporaryFile(dir=there):
                pass
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            raise UserError(
                f"{key}={folder} cannot be written to ({reason})", "choose another folder"
            ) from None


def check_packages(config: Config) -> None:
    """Refuse backends whose packages are not installed, without importing any."""
    for name, backend in config.backends.items():
        stack = backend.stack or stacks.own()
        here = stacks.installed(stack)
        if here is None:
            raise UserError(
                f"backends.{name} needs the {stack} stack, which is not set up in this checkout",
                f"run `make setup STACK={stack}`",
            )
        remedy = f"run {_make(stack)}, or {_install(config, stack)}"
        for package in ("torch", "transformers"):
            if package not in here.packages:
                raise UserError(f"{package} is not installed", remedy)
        if config.model.lora is not None and "peft" not in here.packages:
            raise UserError("model.lora needs peft, which is not installed", remedy)
        optimizer = backend.optimizer_on(config.device.type)
        extends_torch = backend.engine == "ortmodule" or optimizer == "ort_fused_adam"
        if extends_torch:
            _check_onnxruntime(name, config, stack, here.packages)
        if extends_torch and stacks.is_torch_too_new_for_ort(here.packages):
            newest = ".".join(map(str, stacks.NEWEST_TORCH_FOR_ORT))
            raise UserError(
                f"backends.{name} needs torch {newest} or older, since ONNX Runtime Training 1.19.2 does not "
                f"work with torch {here.packages['torch']}, which is installed",
                f"run `make clean` and {_make(stack)}, or {_install(config, stack)}, or measure without it: "
                "backend=[pytorch,pytorch_zero1]",
            )
        if "deepspeed" not in here.packages:
            for key, value in (("sharding", backend.sharding), ("optimizer", optimizer)):
                if value in (*DEEPSPEED, "deepspeed_cpu_adam"):
                    raise UserError(
                        f"backends.{name}.{key}={value} needs deepspeed, which is not installed", remedy
                    )
        choice = recorded_choice(here.prefix)  # an environment that `make setup` did not make has none
        if choice and optimizer == "deepspeed_cpu_adam" and not choice.cpu_adam:
            raise UserError(
                f"backends.{name}.optimizer={optimizer} has not been compiled",
                f"run {_make(stack, '--cpu-adam')}",
            )


def print_other_versions(config: Config) -> None:
    """Name the recorded packages that are not the pinned ones; a user's own environment may have others."""
    for stack in sorted({backend.stack or stacks.own() for backend in config.backends.values()}):
        here = stacks.installed(stack)
        if here and (others := stacks.find_other_versions(stack, here.packages)):
            print(f"not the pinned versions of the {stack} stack: {', '.join(others)}", file=sys.stderr)


def print_removed_variables(variables: Mapping[str, str]) -> None:
    """Name the variables that would change how libraries train or compute, and that ranks do not get."""
    if removed := removed_variables(variables):
        print(f"not passed on, since they change what is measured: {', '.join(removed)}", file=sys.stderr)


def check_blas(config: Config) -> None:
    """Refuse device.blas=full where it changes nothing, or where its library has not been built."""
    if config.device.blas != "full":
        return
    if reason := find_why_full_is_refused():
        raise UserError(f"device.blas=full would change nothing, since {reason}", "leave it out")
    for backend in config.backends.values():
        stack = backend.stack or stacks.own()
        installed = stacks.installed(stack)
        assert installed is not None, "`check_packages` refuses a stack that is not there"
        if not (installed.prefix / MKL_LIBRARY).exists():
            raise UserError(
                f"device.blas=full needs {Path(MKL_LIBRARY).name}, which has not been built in the "
                f"environment of the {stack} stack",
                f"run {_make(stack)}",
            )


def _check_onnxruntime(backend: str, config: Config, stack: str, packages: Mapping[str, str]) -> None:
    """ONNX Runtime's packages share one module, so only their distributions distinguish them."""
    if stack != "ort":
        raise UserError(
            f"backends.{backend} needs ONNX Runtime Training, which the {stack} stack does not have, "
            "since it ended with 1.19.2",
            "run `make bench` without STACK, or measure without it: backend=[pytorch,pytorch_zero1]",
        )
    fitting = [name for name in stacks.ORT_TRAINING if config.device.type == "cpu" or "cpu" not in name]
    if packages.keys().isdisjoint(fitting):
        on_cpu = f"run {_make(stack)}, or {_install(config, stack)}"
        remedy = f"run {_make(stack, '--device cuda')}" if config.device.type == "cuda" else on_cpu
        raise UserError(
            f"backends.{backend} needs {' or '.join(fitting)}, which is not installed",
            f"{remedy}, or measure without it: backend=[pytorch,pytorch_zero1]",
        )
    for plain in ("onnxruntime", "onnxruntime-gpu"):
        if plain in packages:
            raise UserError(
                f"{plain} is installed beside ONNX Runtime Training and overwrites its module",
                f"run `pip uninstall {plain}`, then {_install(config, stack)} with --force-reinstall",
            )


def _make(stack: str, options: str = "") -> str:
    words = [STACKS[stack].make, *([f"SETUP_ARGS='{options}'"] if options else [])]
    return f"`{' '.join(words)}`"


def _install(config: Config, stack: str) -> str:
    return f"`pip install '.[{extra_of(config, stack)}]'`"


def extra_of(config: Config, stack: str) -> str:
    """The stack's packages in pyproject.toml, and its file in requirements/."""
    on_gpus = "ort-gpu" if config.device.type == "cuda" else "ort-cpu"
    return on_gpus if stack == "ort" else stack
