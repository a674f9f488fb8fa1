"""Comparisons whose answer is known, made by hand: for the sentences at the top of the page."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bench.report.content.answer import AnswerWords
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import find_settings
from tests.support.factories import ENVIRONMENT, comparison, failed, workload
from tests.support.result_files import table_of_records

UNDECIDED = (1.2, 1.6, 2.4)
"""Seconds of three launches whose ratios to 2 s lie on both sides of 1."""

OTHER_CPU: dict[str, Any] = ENVIRONMENT | {"cpu": ENVIRONMENT["cpu"] | {"family": 8}}

GFLOP = 1e9


def compared(
    model: str,
    seconds: Mapping[str, float | Sequence[float] | str],
    *,
    profile: Mapping[str, Mapping[str, float]] | None = None,
    products: tuple[float, float] | None = None,
    stem: str = "",
    **changes: Any,
) -> ReportedComparison:
    """One comparison.

    Args:
        model: its name.
        seconds: of each backend's blocks of ten steps: one number for three equal launches, several for as
            many launches, or the status that it ended with.
        profile: seconds per profiled step of each backend, by kind of work.
        products: GFLOP/s of PyTorch's matrix products, and of ONNX Runtime's.
        stem: of its file; the model's name if empty.
        changes: of every record.
    """
    changes = {"workload": workload(model=model)} | changes
    records = []
    for backend, each in seconds.items():
        if isinstance(each, str):
            records.append(failed(backend, each, "made up", **changes))
            continue
        launches = [each] * 3 if isinstance(each, float) else each
        records += comparison({backend: [[one, one] for one in launches]}, **changes)
    rows = table_of_records(records)
    if products:
        rows["torch_matmul_flops_per_s"], rows["ort_matmul_flops_per_s"] = (rate * GFLOP for rate in products)
    return ReportedComparison(stem=stem or model, rows=rows, profile=_profile(rows, profile or {}))


def _profile(rows: pd.DataFrame, seconds: Mapping[str, Mapping[str, float]]) -> pd.DataFrame | None:
    hashes = {column: rows[column].iloc[0] for column in ("config_hash", "environment_hash")}
    lines = [
        {**hashes, "backend": backend, "round": number, "kind": kind, "operator": kind, "seconds_per_step": s}
        for backend, kinds in seconds.items()
        for kind, s in kinds.items()
        for number in (1, 2, 3)
    ]
    return pd.DataFrame(lines) if lines else None


def answers(*comparisons: ReportedComparison) -> list[AnswerWords]:
    """What the page says of them, setting by setting."""
    return [setting.words for setting in find_settings([comparisons])]


def answer(*comparisons: ReportedComparison) -> AnswerWords:
    """The same of comparisons that belong together."""
    (only,) = answers(*comparisons)
    return only


def first_sentence(*comparisons: ReportedComparison) -> str:
    """How fast the first backend is."""
    return answer(*comparisons).sentences[0].text
