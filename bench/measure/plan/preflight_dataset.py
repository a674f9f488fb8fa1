"""Check a model's configuration and a dataset before any launch, in other processes.

Importing transformers or `datasets` takes seconds: `bench.worker.workload.inspections` does it. What is
refused raises a UserError that says what to change or install.
"""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.config import own, python_docs, sizes
from bench.config.choices import PREPARED
from bench.config.module_file import find_file
from bench.config.schema import Config, global_batch
from bench.errors import UserError
from bench.machine.variables import worker_variables

PACKAGES = {"image-classification": ("pillow", "PIL"), "speech-recognition": ("soundfile", "soundfile")}
"""What a task's dataset needs beside `datasets`: the distribution, and its module."""

INSPECTIONS = "bench.worker.workload.inspections"
"""The program that prints a sentence and ends with status 2 where the user has something to correct."""


def check_model(config: Config) -> list[str]:
    """Refuse a model that cannot be built or fed; the names of its weights that get no gradient.

    Also keys of `model.config` that transformers does not know, a checkpoint that it cannot read, and a task
    or checkpointing that the architecture lacks. A shipped file is known; ranks check once more.
    """
    model = config.model
    known = sizes.read_shipped(model.name) or {}
    is_shipped = model.pretrained is None and all(
        known.get(key) == getattr(model, key) for key in ("architecture", "task", "config")
    )
    for file in sorted(Path(model.pretrained or "nowhere").glob("*.safetensors")):
        _check_header(file)
    if model.module is not None or (is_shipped and not config.checkpointing_of(config.reference)):
        return []
    if config.data.name == "hf":  # whose batch `check_dataset` takes for it
        return []
    return _inspect("inspect_model", config, seq_len=config.seq_len)


def _check_header(file: Path) -> None:
    """Refuse a truncated file of weights, or a file without weights, such as a Git LFS pointer."""
    from safetensors import SafetensorError, safe_open  # not for `make doctor`, either

    try:
        with safe_open(file, framework="numpy"):
            pass
    except (OSError, SafetensorError):
        raise UserError(
            f"{file} is damaged or no file of safetensors", "fetch it again, such as with git lfs"
        ) from None


def check_module(config: Config) -> list[str]:
    """Refuse a user's module that cannot be built, fed or trained; returns as `check_model` does."""
    if config.model.module is None:
        return []
    find_file(config.model.module)
    sizes_of_batch = {"micro_batch": config.micro_batch, "seq_len": config.seq_len}
    return _inspect("inspect_module", config, **sizes_of_batch, seed=config.seed, device=config.device.type)


def _inspect(function: str, config: Config, **given: Any) -> list[str]:
    """Let a function of `bench.worker.workload.inspections` inspect the model, as a rank would; its answer.

    Raises:
        UserError: the sentence that it printed, ending with status 2: the user has something to correct.
    """
    given |= {
        "model": dataclasses.asdict(config.model),
        "checkpointing": config.checkpointing_of(config.reference),
    }
    with tempfile.TemporaryDirectory(prefix="bench-check-") as folder:
        file = Path(folder) / "spec.json"
        file.write_text(json.dumps(given), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", INSPECTIONS, function, str(os.getpid()), str(file)],
            env=worker_variables(
                os.environ,
                device=given.get("device", "cpu"),
                threads=config.device.threads,
                allocator="system",
                blas="stock",
                precision="fp32",
                checkpointing=False,
            )
            # Nothing is measured yet; and a sentence may have characters that the terminal lacks.
            | {"TOKENIZERS_PARALLELISM": "true", "PYTHONIOENCODING": "utf-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    *_, last = ["", *done.stdout.strip().splitlines()]  # above it, what libraries print
    if done.returncode == 2 and last:
        raise UserError(last)
    if done.returncode != 0:
        raise RuntimeError(f"{function} ended with status {done.returncode}:\n{done.stderr}")
    answer: list[str] = json.loads(last)
    return answer


def check_dataset(config: Config) -> list[str]:
    """Refuse a dataset that cannot be read or does not fit task and model; returns as `check_model` does."""
    if config.data.name == python_docs.NAME:
        _check_python_docs(config)
    if config.data.name != "hf":
        return []
    if config.model.task not in PREPARED:
        raise UserError(
            f"data=hf has no preparation for model.task={config.model.task}",
            f"choose data=synthetic, or one of: {', '.join(PREPARED)}",
        )
    _check_packages(config)
    _check_folders(config)
    if sys.stderr.isatty():
        print(f"reading data.path={config.data.path}, and tokenizing it if it is text", file=sys.stderr)
    samples = global_batch(config.micro_batch, config.grad_accum, config.device.world_size)
    data = dataclasses.asdict(config.data)
    return _inspect("inspect_dataset", config, data=data, seq_len=config.seq_len, global_batch=samples)


def _check_python_docs(config: Config) -> None:
    """Refuse a model that cannot learn from bytes, and batches that a tenth of the text would not fill."""
    task, words = (
        config.model.task,
        sizes.resize(config.model.dimensions, config.model.size).get("vocab_size"),
    )
    if task not in python_docs.TASKS:
        raise UserError(
            f"data={python_docs.NAME} is a text without labels, and model.task={task} needs some",
            f"choose a model of another task, such as bert-tiny, or model.task={python_docs.TASKS[-1]}",
        )
    if isinstance(words, int) and words < python_docs.VOCABULARY:
        raise UserError(
            f"data={python_docs.NAME} has {python_docs.VOCABULARY} words, more than "
            f"model.config.vocab_size={words}",
            f"set model.config.vocab_size={python_docs.VOCABULARY} or more",
        )
    if importlib.util.find_spec("pydoc_data") is None:
        raise UserError(
            f"data={python_docs.NAME} is a part of Python's own library, pydoc_data, which this Python lacks",
            "install all of Python, or choose other data",
        )
    assert config.seq_len is not None, "these tasks have lengths"
    training, held_out = (len(part) // config.seq_len for part in python_docs.split())
    samples = global_batch(config.micro_batch, config.grad_accum, config.device.world_size)
    if samples > training or not held_out:
        raise UserError(
            f"data={python_docs.NAME} has {training:,} samples of seq_len={config.seq_len} to train on, and "
            f"one step takes {samples:,}",
            "lower micro_batch, grad_accum or seq_len",
        )


def _check_packages(config: Config) -> None:
    needed = [("datasets", "datasets"), *filter(None, [PACKAGES.get(config.model.task)])]
    for distribution, module in needed:
        if importlib.util.find_spec(module) is None:
            raise UserError(
                f"data=hf needs {distribution} for model.task={config.model.task}, which is not installed",
                f"run `make setup`, or `pip install {distribution}`",
            )


def _check_folders(config: Config) -> None:
    """Refuse a path on this machine that does not exist."""
    for key, place, what in (
        ("data.path", config.data.path, "a folder or file of data"),
        ("data.processor", config.data.processor, "a folder that save_pretrained wrote"),
    ):
        if place is None or not own.names_folder(place):
            continue  # it can be a hub id, `owner/name`
        try:
            there = Path(place).exists()
        except OSError:
            there = False
        if not there:
            raise UserError(f"{key}={place} does not exist", f"give {what}, or an id on the hub")
