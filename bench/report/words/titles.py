"""What a comparison is called on pages and in the terminal: its model, and what is not the default."""

import re
from collections.abc import Mapping

import pandas as pd

from bench.config.backend import DEFAULT_REFERENCE
from bench.config.choices import DEFAULT_BACKENDS
from bench.errors import plural
from bench.report.words import describe
from bench.report.words.formatting import MOST_NAMED, TIMES, enumerated, one_line
from bench.results.environment_cell import gpu_names, latest_environment
from bench.statistics.table_values import (
    at_largest_batch,
    by_key,
    distinct_text,
    latest_overrides,
    left_alone,
)

_NOT_IN_TITLES = re.compile(
    r"(model(\.size|\.task)?|backend|reference|micro_batch|grad_accum|seq_len|precision|attention|"
    r"checkpointing|data|machine|study|device|"
    r"device\.(world_size|nodes|blas|allocator|pin_cores|memory_limit_gib|rdzv.*)|"
    r"data\..*|model\.lora.*|measure|measure\..*|hydra.*)"
)
"""Settings for which a results file has columns, and those that change nothing that is measured."""


def make_title(rows: pd.DataFrame, label: str) -> str:
    """The model, where it ran, and what is not the default: `bert-mini, 2 ranks, as installed`.

    Batch and length are named where the comparison's own overrides set them: the defaults are the model's.
    """
    overrides = by_key(latest_overrides(rows))
    parts = [
        label,
        _ranks(rows),
        *_workload(rows, overrides),
        *_backends(rows),
        *left_alone(rows),
        describe.mkl_path(rows) if distinct_text(rows, "device") == "cpu" else "",
        *(f"{key}={value}" for key, value in overrides.items() if not _NOT_IN_TITLES.fullmatch(key)),
    ]
    return one_line(", ".join(filter(None, parts)))


def _ranks(rows: pd.DataFrame) -> str:
    world_size, nodes = distinct_text(rows, "world_size"), distinct_text(rows, "nodes")
    gpus = gpu_names(latest_environment(rows))
    on = f" on {nodes} nodes" if nodes not in ("", "1") else ""
    if distinct_text(rows, "device") != "cpu" and gpus:
        return f"{world_size} {TIMES} {gpus[0]}{on}"
    return f"{plural(world_size, 'rank')}{on}"


def _workload(rows: pd.DataFrame, overrides: Mapping[str, str]) -> list[str]:
    parts = describe.workload_parts(describe.of_reference(rows))
    batch = f"batch {describe.reference_value(rows, 'micro_batch')}" if "micro_batch" in overrides else ""
    accumulated = describe.reference_value(rows, "grad_accum")
    on_cpu, precision = distinct_text(rows, "device") == "cpu", parts["precision"]
    return [
        parts["task"] if "model.task" in overrides else "",
        "each backend at its largest batch" if at_largest_batch(rows) else batch,
        f"{accumulated} {TIMES} accumulated" if accumulated not in ("", "1") else "",
        parts["length"] if "seq_len" in overrides else "",
        "" if on_cpu and precision == "fp32" else precision,
        *(parts[name] for name in ("attention", "trained", "checkpointing", "data", "memory limit")),
    ]


def _backends(rows: pd.DataFrame) -> list[str]:
    """What is measured beside the default backends, and over which."""
    reference = distinct_text(rows, "reference")
    names = [str(name) for name in dict.fromkeys(rows["backend"])]
    more = [name for name in names if name not in (*DEFAULT_BACKENDS, reference)]
    beside = enumerated(more) if len(more) <= MOST_NAMED else f"{len(more)} more backends"
    stack = distinct_text(describe.of_reference(rows), "stack")
    return [
        f"over {reference}" if reference != DEFAULT_REFERENCE else "",
        f"with {beside}" if more else "",
        f"{stack} stack" if stack not in ("", "ort") else "",
    ]
