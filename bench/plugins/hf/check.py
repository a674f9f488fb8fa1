"""Looks at a dataset before any launch, and says how rows name it; `datasets` is imported elsewhere."""

import dataclasses
import sys
from pathlib import Path

from bench.config.choices import TASKS
from bench.config.data import Data
from bench.config.schema import Config, global_batch
from bench.errors import UserError
from bench.measure.plan.preflight_dataset import inspect

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
    if sys.stderr.isatty():
        print(f"reading data.path={config.data.path}, and tokenizing it if it is text", file=sys.stderr)
    samples = global_batch(config.micro_batch, config.grad_accum, config.device.world_size)
    given = {"data": dataclasses.asdict(config.data), "seq_len": config.seq_len, "global_batch": samples}
    return inspect("inspect_dataset", config, "bench.plugins.hf.inspection", **given)
