"""Bytes that a rank sends in a step: the rules' beside those that were counted here."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.results import csv_files
from bench.results.machines import list_study
from bench.statistics.table_values import by_key, latest_overrides
from bench.studies.collectives.sent import Collective, sent_bytes
from bench.studies.collectives.table import TABLE as COLLECTIVES
from bench.studies.scale.facts import facts_of
from bench.studies.scale.model_facts import ModelFacts
from bench.studies.scale.traffic import SHARDINGS, sent_in_a_step, traffic_of

STUDY = "scale"  # of the comparisons whose collectives are read

CONTROL_BYTES = 64
"""Collectives of up to 64 bytes carry flags and norms, which are no part of a sharding's volume."""

SHAPES = ("model", "micro_batch", "seq_len", "data.lengths", "attention", "precision")
"""Settings that decide a model's shapes, with all that begin with `model.`."""


@dataclass(frozen=True, kw_only=True)
class CheckedBytes:
    """Bytes that a rank sends in a step of one backend."""

    model: str
    backend: str
    sharding: str
    ranks: int
    counted: float
    predicted: float


def check_bytes(results: Path) -> list[CheckedBytes]:
    """Compare all counts of all machines, each once; UserError if a file is damaged or a shape unknown."""
    facts: dict[tuple[str, ...], ModelFacts] = {}
    checked: dict[tuple[object, ...], CheckedBytes] = {}
    for folder in list_study(results, STUDY):
        for path in csv_files.list_files(folder):
            beside = COLLECTIVES.path_of(path)
            if not beside.exists():
                continue
            rows = csv_files.read(path)
            workload = _workload(rows)
            if workload not in facts:
                _, facts[workload] = facts_of(workload)
            for point in _points(rows, COLLECTIVES.read(beside), facts[workload]):
                checked.setdefault((folder, workload, point.backend, point.ranks), point)
    return list(checked.values())


def _workload(rows: pd.DataFrame) -> tuple[str, ...]:
    """The overrides that decide the model's shapes."""
    settings = {"model": rows["model"].iloc[0]} | by_key(latest_overrides(rows))
    return tuple(f"{k}={v}" for k, v in sorted(settings.items()) if k in SHAPES or k.startswith("model."))


def _points(rows: pd.DataFrame, collectives: pd.DataFrame, facts: ModelFacts) -> Iterator[CheckedBytes]:
    """One for each backend of a comparison whose collectives were counted, and whose sharding is known."""
    for _, row in rows.drop_duplicates("backend").iterrows():
        ranks, sharding = int(row["world_size"]), str(row["sharding"])
        if sharding in SHARDINGS and (counted := counted_bytes(collectives, row["backend"], ranks)):
            traffic = traffic_of(sharding, facts, ranks=ranks)
            yield CheckedBytes(
                model=row["model"],
                backend=row["backend"],
                sharding=sharding,
                ranks=ranks,
                counted=counted,
                predicted=sent_in_a_step(traffic, ranks, int(row["grad_accum"]), least_bytes=CONTROL_BYTES),
            )


def counted_bytes(collectives: pd.DataFrame, backend: str, ranks: int) -> float:
    """Bytes that a rank of a backend was counted to send in a step, flags and norms left out."""
    mine = collectives[
        (collectives["backend"] == backend)
        & (collectives["calls"] > 0)
        & (collectives["whole_bytes"] > CONTROL_BYTES)
    ].drop_duplicates(["name", "whole_bytes", "element_bytes"])  # several launches count the same
    return sum(
        sent_bytes(
            Collective(kind=row.kind, bytes=int(row.whole_bytes), element_bytes=int(row.element_bytes)), ranks
        )
        * int(row.calls)
        for row in mine.rename(columns={"name": "kind"}).itertuples()
    )
