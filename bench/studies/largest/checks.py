"""Refuses a search for the largest micro-batch where nothing limits the memory, or too many share it."""

from bench.config.schema import Config
from bench.errors import UserError


def check(config: Config) -> None:
    """Look at the device's memory."""
    if config.measure.batch != "max":
        return
    if config.device.type == "cuda" and config.measure.schedule == "interleaved":
        raise UserError(
            "measure.schedule=interleaved cannot be combined with measure.batch=max on GPUs, "
            "where each backend takes all memory",
            "choose measure.schedule=sequential",
        )
    if config.device.type == "cpu" and config.device.memory_limit_gib is None:
        raise UserError(
            "measure.batch=max on a CPU needs device.memory_limit_gib=…, since a machine without a limit "
            "gets slow before its memory ends",
            "set it",
        )
