"""What a sweep leaves beside the results files of its comparisons; it is rebuilt from those."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report.files import folder_of_all
from bench.report.methods_page import PAGE
from bench.report.render import render_comparisons, write_methods
from bench.report.support_matrix import TABLE, read_matrix, support_csv
from bench.report.support_page import render_support
from bench.results.atomic import write_atomically
from bench.results.disk import reporting_write_errors

Update = Callable[[Path, Path], Sequence[str]]
"""Rebuilds the summary, given the folders of results and of reports; what it could not read, in sentences."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How a summary is kept up to date.

    Attributes:
        update: rebuilds it.
        names: the most important files of it, given the folders of results and of reports.
        after_each: it takes no time, so that it is rebuilt after each comparison and not only at the end.
    """

    update: Update
    names: Callable[[Path, Path], Sequence[Path]]
    after_each: bool


def update_support(results_dir: Path, reports_dir: Path) -> Sequence[str]:
    """Write the support matrix, `support.csv` beside its comparisons and `support.md` in the reports."""
    comparisons = read_matrix(results_dir)
    with reporting_write_errors(results_dir / TABLE):
        write_atomically(results_dir / TABLE, support_csv(comparisons))
        write_atomically(reports_dir / "support.md", render_support(comparisons))
    return []


def update_report(results_dir: Path, reports_dir: Path) -> Sequence[str]:
    """Write the tables, figures and page of all results."""
    _, refused = render_comparisons(folder_of_all(results_dir), reports_dir)
    return refused


def update_methods(results_dir: Path, reports_dir: Path) -> Sequence[str]:
    """Write the page and the figures about methods, of all machines."""
    _, refused = write_methods(folder_of_all(results_dir), reports_dir)
    return refused


SUMMARIES = {
    "methods": Summary(
        update=update_methods,
        names=lambda _, reports_dir: [reports_dir / PAGE],
        after_each=True,
    ),
    "support": Summary(
        update=update_support,
        names=lambda results_dir, reports_dir: [reports_dir / "support.md", results_dir / TABLE],
        after_each=True,
    ),
    "report": Summary(
        update=update_report,
        names=lambda _, reports_dir: [reports_dir / "index.html", reports_dir / "index.md"],
        after_each=False,
    ),
}
"""By the name that a plan has for it (`bench.sweeps.plan_file.Plan.summary`)."""
