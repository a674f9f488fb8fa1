"""Results of many models that nobody measured, made of a recorded file: for drawings and tables."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bench.report.content.collection import ReportedComparison, read_comparison
from bench.results import csv_files
from tests.support.result_files import write_rows

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "results" / "bert-tiny-cpux2.csv"

MEASUREMENTS = ("round", "position", "attempt", "steps", "seconds", "samples_per_s", "model_flops_per_s")
"""What a launch that failed has not."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model of the example.

    Attributes:
        speed: of each backend, the reference's being 1; in place of a number the status that it ended with.
        spread: of the logarithm of every speed-up from one of its three launches to the next.
        memory: of each backend likewise, where it is not 1.
    """

    name: str
    task: str
    speed: Mapping[str, float | str]
    size: str = "published"
    spread: float = 0.015
    memory: Mapping[str, float] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


def _speeds(best: float | str, ortmodule: float | str, zero1: float | str) -> dict[str, float | str]:
    return {"pytorch": 1.0, "pytorch_best": best, "ortmodule": ortmodule, "ortmodule_zero1": zero1}


_MEMORY = {"pytorch_best": 0.97, "ortmodule": 1.04, "ortmodule_zero1": 0.71}

ELEVEN = (
    Model(name="bert-large", task="masked-lm", speed=_speeds(1.09, 1.064, 0.946), memory=_MEMORY),
    Model(name="roberta-large", task="question-answering", speed=_speeds(1.08, 1.21, 1.15), memory=_MEMORY),
    Model(name="distilbert-base", task="masked-lm", speed=_speeds(1.12, 1.16, 1.02), memory=_MEMORY),
    Model(
        name="deberta-v2-xxlarge",
        task="sequence-classification",
        speed=_speeds(1.02, "unsupported", "unsupported"),
        memory=_MEMORY,
    ),
    Model(name="gpt2", task="causal-lm", spread=0.004, speed=_speeds(1.05, 0.80, 0.77), memory=_MEMORY),
    Model(name="bart-large", task="translation", speed=_speeds(1.11, 1.18, "oom"), memory=_MEMORY),
    Model(name="t5-large", task="translation", spread=0.03, speed=_speeds(1.07, 1.33, 1.29), memory=_MEMORY),
    Model(name="vit-base", task="image-classification", speed=_speeds(1.03, 0.97, 0.93), memory=_MEMORY),
    Model(name="beit-base", task="image-classification", speed=_speeds(1.04, 1.01, "crashed")),
    Model(name="swinv2-base", task="image-classification", speed=_speeds(1.01, "diverged", "skipped")),
    Model(name="whisper-small", task="speech-recognition", speed=_speeds(1.06, 1.12, 1.07), memory=_MEMORY),
)
"""One of each kind, and of each way not to have a bar."""


BY_NAME = {model.name: model for model in ELEVEN}


@cache
def _golden() -> pd.DataFrame:
    return csv_files.read(GOLDEN)


_tables: dict[str, pd.DataFrame] = {}  # by all that is said of a model, which has no hash


def table_of(model: Model) -> pd.DataFrame:
    """The rows of one model, as if read from a file."""
    if repr(model) not in _tables:
        _tables[repr(model)] = _make_table(model)
    return _tables[repr(model)].copy()


def _make_table(model: Model) -> pd.DataFrame:
    golden = _golden()
    rows = []
    for backend, speed in model.speed.items():
        mine = _of_backend(golden, backend, model)
        rows += _failed(mine, str(speed)) if isinstance(speed, str) else _faster(mine, speed, model)
    return csv_files.table_of_lines([csv_files.format_rows(rows)])


def comparison(model: Model) -> ReportedComparison:
    """The same, as a report takes it."""
    return ReportedComparison(stem=f"{model.name}-cpux2", rows=table_of(model))


def comparisons_of(*names: str) -> list[ReportedComparison]:
    """The same of models by their names."""
    return [comparison(BY_NAME[name]) for name in names]


def write(folder: Path, models: tuple[Model, ...] = ELEVEN) -> list[Path]:
    """A results file for each model."""
    paths = []
    for model in models:
        path = folder / f"{model.name}-cpux2.csv"
        write_rows(path, table_of(model).to_dict("records"))
        read_comparison(path)  # what is drawn has passed every check of a results file
        paths.append(path)
    return paths


def _of_backend(golden: pd.DataFrame, backend: str, model: Model) -> pd.DataFrame:
    """The reference's recorded blocks under the backend's name, choices and losses."""
    mine = golden[golden["backend"] == "pytorch"]
    known = golden[golden["backend"] == backend]
    changes: dict[str, Any] = {"model": model.name, "task": model.task, "size": model.size}
    changes |= {"comparison": f"{model.name}-cpux2", "backend": backend, **model.changes}
    for column in ("engine", "optimizer", "optimizer_implementation", "sharding", "loss_difference"):
        changes[column] = (known if len(known) else mine)[column].iloc[0]
    return mine.assign(**changes)


def _faster(rows: pd.DataFrame, speed: float, model: Model) -> list[dict[Any, Any]]:
    """The rows as they would be if the backend were `speed` times as fast as in the recorded file.

    Its launches are `model.spread` apart, so that the interval is known, too: `half_width`.
    """
    rows = rows.copy()
    if rows["backend"].iloc[0] != "pytorch":
        rows["seconds"] /= speed * np.exp((rows["launch"].astype(float) - 2) * model.spread)
    rows["host_peak_mib"] = 1000 * model.memory.get(str(rows["backend"].iloc[0]), 1.0)
    rows["samples_per_s"] = rows["steps"] * rows["global_batch"] / rows["seconds"]
    rows["model_flops_per_s"] = rows["model_flops_per_step"] * rows["steps"] / rows["seconds"]
    rows["limit_flops_per_s"] = rows["roofline_share"] = np.nan
    return rows.to_dict("records")


def half_width(model: Model) -> float:
    """Half of the 95 % interval of the logarithm of every speed-up: Student's t with 2 degrees of freedom."""
    return float(stats.t.ppf(0.975, 2) * model.spread / math.sqrt(3))


def _failed(rows: pd.DataFrame, status: str) -> list[dict[Any, Any]]:
    """One launch that ended before its first block."""
    row = rows.iloc[0].to_dict()
    blank = dict.fromkeys([*MEASUREMENTS, "roofline_share", "host_peak_mib"])
    return [row | blank | {"status": status, "message": f"made up: it is {status}", "launch": 1}]
