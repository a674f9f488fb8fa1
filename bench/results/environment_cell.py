"""The column `environment` of the results CSV: JSON written and read."""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from bench.machine.identity import processor_key


def format_environment(environment: Mapping[str, Any]) -> str:
    """The environment as the text of its cell: compact JSON with sorted keys."""
    return json.dumps(environment, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def latest_environment(table: pd.DataFrame) -> dict[str, Any]:
    """The environment of the file's latest row."""
    return parse_environment(table["environment"].iloc[-1])


def parse_environment(cell: str) -> dict[str, Any]:
    """The environment that a cell holds; `bench.results.csv_files` has seen that it is a JSON object."""
    environment: dict[str, Any] = json.loads(cell)
    return environment


def environment_entry(environment: Any, *keys: str) -> Any:
    """A nested entry of the environment; None if it, or anything on the way to it, is missing."""
    for key in keys:
        environment = environment.get(key) if isinstance(environment, dict) else None
    return environment


def gpu_names(environment: dict[str, Any]) -> list[str]:
    """The names of the GPUs, one per device."""
    return [str(environment_entry(gpu, "name") or "GPU") for gpu in environment.get("gpus") or []]


def machine_key(environment: dict[str, Any]) -> tuple[str, ...]:
    """What is equal for files whose figures may be combined: the same CPU, as many cores, the same GPUs."""
    cores = environment_entry(environment, "cpu", "cores")
    return (*processor_key(environment), str(cores), *gpu_names(environment))
