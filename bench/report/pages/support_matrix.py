"""The support matrix as data: the comparisons of `make matrix`, and support.csv made from them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from bench.errors import PASSED
from bench.report.content.backend_columns import Value, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.files import files_of
from bench.report.render.csv import render_csv
from bench.results import csv_files

TABLE = "support.csv"

PLAN = Path(__file__).resolve().parents[3] / "conf" / "sweeps" / "matrix.yaml"
"""What `make matrix` measures."""

CHOICES = "choices"
"""The study of other engines, optimizers and shardings."""

SUPPORT_COLUMNS: Mapping[str, Value] = {
    "model": lambda row: row.comparison.model,
    "task": lambda row: row.cell("task"),
    "backend": lambda row: row.summary.backend,
    "engine": lambda row: row.summary.engine,
    "optimizer": lambda row: row.summary.optimizer,
    "sharding": lambda row: row.summary.sharding,
    "status": lambda row: row.summary.status,
    "message": lambda row: "" if row.summary.status in PASSED else row.summary.message,  # why not ok
    # the largest relative one from the reference's, over the parity steps
    "loss_difference": lambda row: row.summary.loss_difference,
    # over the reference; blank for the reference itself
    "speedup": lambda row: row.summary.speedup and row.summary.speedup.ratio,
    "stack": lambda row: row.cell("stack"),
    "hardware": lambda row: row.comparison.hardware,
    "comparison": lambda row: row.comparison.stem,  # the results file's
    "git_commit": lambda row: row.cell("git_commit"),
    "command": lambda row: row.comparison.command,
}
"""The columns of support.csv, which has a row for each model and backend; blank where there is nothing."""


def planned_models(part: str = "models") -> list[str]:
    """The models of a part of the matrix' plan, in the order of its table."""
    parts = yaml.safe_load(PLAN.read_text(encoding="utf-8"))["parts"]
    return [str(model) for planned in parts if planned["name"] == part for model in planned["models"]]


def read_matrix(folder: Path) -> list[ReportedComparison]:
    """The matrix' comparisons in the order of its plan; models that are not in it follow by name.

    Raises:
        UserError: a file is damaged.
    """
    comparisons = [ReportedComparison(stem=path.stem, rows=csv_files.read(path)) for path in files_of(folder)]
    place = {model: number for number, model in enumerate(planned_models())}
    comparisons.sort(key=lambda item: (place.get(item.model, len(place)), item.model, is_of_choices(item)))
    return comparisons


def is_of_choices(comparison: ReportedComparison) -> bool:
    """Whether it is about other engines, optimizers and shardings, which are not timed."""
    return comparison.experiment == CHOICES


def support_csv(comparisons: Sequence[ReportedComparison]) -> str:
    """The content of support.csv; the reference of untimed comparisons says nothing and is left out."""
    rows = rows_of(comparisons)
    kept = [row for row in rows if not (row.summary.is_reference and row.summary.status == "untimed")]
    return render_csv(kept, SUPPORT_COLUMNS)
