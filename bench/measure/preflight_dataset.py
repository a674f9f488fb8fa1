"""Check a dataset before any launch: whether it exists, here; whether it fits the task, in another process.

Imports no `datasets`, which would import half of the stack: `bench.worker.workload.inspect_dataset` does.
"""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.config.schema import Config, global_batch
from bench.errors import UserError
from bench.machine.variables import worker_variables

PACKAGES = {"image-classification": ("pillow", "PIL"), "speech-recognition": ("soundfile", "soundfile")}
"""What a task's dataset needs beside `datasets`: the distribution, and its module."""


def check_dataset(config: Config) -> None:
    """Refuse a dataset that does not exist, cannot be read, or does not fit task and model.

    Raises:
        UserError: with the remedy.
    """
    if config.data.name != "hf":
        return
    _check_packages(config)
    _check_folders(config)
    if sys.stderr.isatty():
        print(f"reading data.path={config.data.path}, and tokenizing it if it is text", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="bench-check-") as folder:
        spec = Path(folder) / "spec.json"
        spec.write_text(json.dumps(_spec(config)), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "bench.worker.workload.inspect_dataset", str(os.getpid()), str(spec)],
            env=worker_variables(
                os.environ,
                device="cpu",
                threads=config.device.threads,
                allocator="system",
                blas="stock",
                precision="fp32",
                checkpointing=False,
            )
            | {"TOKENIZERS_PARALLELISM": "true"},  # nothing is measured yet
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 2 and done.stdout.strip():
        raise UserError(done.stdout.strip().splitlines()[-1])
    if done.returncode != 0:
        raise RuntimeError(
            f"bench.worker.workload.inspect_dataset ended with status {done.returncode}:\n{done.stderr}"
        )


def _spec(config: Config) -> dict[str, object]:
    return {
        "model": dataclasses.asdict(config.model),
        "data": dataclasses.asdict(config.data),
        "seq_len": config.seq_len,
        "global_batch": global_batch(config.micro_batch, config.grad_accum, config.device.world_size),
    }


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
        if place is None or not (place.startswith((".", "/", "~")) or place.count("/") > 1):
            continue  # it can be the id of something on the hub, `owner/name`
        try:
            there = Path(place).exists()
        except OSError:
            there = False
        if not there:
            raise UserError(f"{key}={place} does not exist", f"give {what}, or an id on the hub")
