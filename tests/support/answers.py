"""Comparisons whose answer is known, made by hand: for the top of the page."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.content.answer import SettingAnswer
from bench.report.content.collection import ReportedComparison
from bench.report.content.models import find_settings
from tests.support.factories import ENVIRONMENT, comparison, failed, workload
from tests.support.result_files import table_of_records

UNDECIDED = (1.2, 1.6, 2.4)
"""Seconds of three launches whose ratios to 2 s lie on both sides of 1."""

OTHER_CPU: dict[str, Any] = ENVIRONMENT | {"cpu": ENVIRONMENT["cpu"] | {"family": 8}}


def compared(
    model: str, seconds: Mapping[str, float | Sequence[float] | str], *, stem: str = "", **changes: Any
) -> ReportedComparison:
    """One comparison.

    Args:
        model: its name.
        seconds: of each backend's blocks of ten steps: one number for three equal launches, several for as
            many launches, or the status that it ended with.
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
    return ReportedComparison(stem=stem or model, rows=table_of_records(records))


def answers(*comparisons: ReportedComparison) -> list[SettingAnswer]:
    """What the page says of them, setting by setting."""
    return [setting.answer for setting in find_settings([comparisons])]
