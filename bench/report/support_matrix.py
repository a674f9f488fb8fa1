"""The support matrix as data: the comparisons of `make matrix`, and support.csv made from them."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from bench.analysis.table_values import distinct_text
from bench.errors import PASSED
from bench.report.collection import ReportedComparison
from bench.report.files import files_of
from bench.report.formatting import one_line
from bench.results import csv_files
from bench.statistics.summary import BackendSummary

TABLE = "support.csv"

PLAN = Path(__file__).resolve().parents[2] / "conf" / "sweeps" / "matrix.yaml"
"""What `make matrix` measures."""

CHOICES = "choices"
"""The study of other engines, optimizers and shardings."""

COLUMNS = (
    "model",
    "task",
    "backend",
    "engine",
    "optimizer",
    "sharding",
    "status",
    "message",  # why not ok
    "loss_difference",  # the largest relative one from the reference's, over the parity steps
    "speedup",  # over the reference; blank for the reference itself
    "stack",
    "hardware",
    "comparison",  # the results file's stem
    "git_commit",
    "command",
)
"""The columns of support.csv, which has a row for each model and backend."""


def planned_models(part: str = "models") -> list[str]:
    """The models of a part of the matrix' plan, in the order of its table."""
    parts = yaml.safe_load(PLAN.read_text(encoding="utf-8"))["parts"]
    return [str(model) for one in parts if one["name"] == part for model in one["models"]]


def read_matrix(folder: Path, order: Sequence[str] | None = None) -> list[ReportedComparison]:
    """The matrix' comparisons.

    Args:
        folder: their results files, one for each model.
        order: of the models, by default that of the plan; those that are not in it follow by name.

    Raises:
        UserError: a file is damaged.
    """
    comparisons = [ReportedComparison(stem=path.stem, rows=csv_files.read(path)) for path in files_of(folder)]
    place = {model: number for number, model in enumerate(planned_models() if order is None else order)}
    return sorted(
        comparisons, key=lambda one: (place.get(one.model, len(place)), one.model, is_of_choices(one))
    )


def is_of_choices(comparison: ReportedComparison) -> bool:
    """Whether it is about other engines, optimizers and shardings, which are not timed."""
    return comparison.experiment == CHOICES


def support_csv(comparisons: Sequence[ReportedComparison]) -> str:
    """The content of support.csv; the reference of untimed comparisons says nothing and is left out."""
    lines = io.StringIO(newline="")
    writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writeheader()
    for comparison in comparisons:
        for summary in comparison.summaries:
            if not (summary.is_reference and summary.status == "untimed"):
                row = _row(comparison, summary)
                writer.writerow({key: one_line(value) for key, value in row.items()})
    return lines.getvalue()


def _row(comparison: ReportedComparison, one: BackendSummary) -> dict[str, str]:
    """A value for each of `COLUMNS`; blank where there is none."""
    rows = comparison.rows
    return {
        "model": comparison.model,
        "task": distinct_text(rows, "task"),
        "backend": one.backend,
        "engine": one.engine,
        "optimizer": one.optimizer,
        "sharding": one.sharding,
        "status": one.status,
        "message": "" if one.status in PASSED else one.message,
        "loss_difference": "" if one.loss_difference is None else repr(one.loss_difference),
        "speedup": "" if one.speedup is None else repr(one.speedup.ratio),
        "stack": distinct_text(rows, "stack"),
        "hardware": comparison.hardware,
        "comparison": comparison.stem,
        "git_commit": distinct_text(rows, "git_commit"),
        "command": comparison.command,
    }
