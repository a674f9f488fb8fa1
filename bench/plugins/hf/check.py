"""Looks at a dataset before any launch, and says how rows name it; `datasets` is imported elsewhere."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

from bench.config import own
from bench.config.choices import TASKS
from bench.config.data import Data
from bench.config.schema import Config, global_batch
from bench.errors import UserError
from bench.measure.plan.preflight_dataset import inspect

PACKAGES = {"image-classification": ("pillow", "PIL"), "speech-recognition": ("soundfile", "soundfile")}
"""What a task's dataset needs beside `datasets`: the distribution, and its module."""

PREPARATIONS = Path(__file__).with_name("preparation")
PREPARED = tuple(task for task in TASKS if (PREPARATIONS / f"{task.replace('-', '_')}.py").exists())
"""Tasks whose samples can be made of a dataset."""


def describe(data: Data) -> str:
    """Which dataset it is."""
    return f"{data.name}:{data.path}"


def check(config: Config) -> list[str]:
    """Refuse a dataset that cannot be read, or does not fit; the names of weights that get no gradient."""
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
    given = {"data": dataclasses.asdict(config.data), "seq_len": config.seq_len, "global_batch": samples}
    return inspect("inspect_dataset", config, "bench.plugins.hf.inspection", **given)


def _check_packages(config: Config) -> None:
    needed = [("datasets", "datasets"), *filter(None, [PACKAGES.get(config.model.task)])]
    for distribution, module in needed:
        if importlib.util.find_spec(module) is None:
            raise UserError(
                f"data=hf needs {distribution} for model.task={config.model.task}, which is not installed",
                f"run `make setup`, or `pip install {distribution}`",
            )


def _check_folders(config: Config) -> None:
    for key, place, what in (
        ("data.path", config.data.path, "a folder or file of data"),
        ("data.processor", config.data.processor, "a folder that save_pretrained wrote"),
    ):
        if place is None or not own.names_folder(place):
            continue  # it can be the id of something on the hub, `owner/name`
        try:
            there = Path(place).exists()
        except OSError:
            there = False
        if not there:
            raise UserError(f"{key}={place} does not exist", f"give {what}, or an id on the hub")
