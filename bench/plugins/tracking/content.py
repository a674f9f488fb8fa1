"""What a tracker is given of a comparison: settings, figures and words of each backend, and files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import PASSED
from bench.report.content.backend_columns import IN_SUMMARY, rows_of
from bench.report.content.collection import ReportedComparison
from bench.report.figures.comparisons import speedup_chart
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import draw_rows
from bench.results.columns import Rule, columns_with
from bench.statistics.table_values import distinct_text

CHOICES = ("engine", "optimizer", "sharding")
FIGURES = ("samples_per_s", "speedup", "speedup_low", "speedup_high", "peak_mib")
WORDS = ("status", "verdict", "message")
"""Columns of summary.csv: what a backend is, what is measured of it, and what explains that."""


@dataclass(frozen=True, kw_only=True)
class TrackedComparison:
    """One comparison as plain values; what is of a backend is named `ortmodule/speedup`."""

    name: str  # of its results file, without the ending
    passed: bool  # whether every backend was ok, or parity alone was wanted of it
    settings: Mapping[str, str]
    figures: Mapping[str, float]  # one that is not known or not valid is not there
    words: Mapping[str, str]
    files: Sequence[Path]  # the results file, and the figure of its speed-ups, if these are results


def content_of(comparison: ReportedComparison, folder: Path) -> TrackedComparison:
    """What is logged of a comparison that has a file; its figure is drawn into `folder`."""
    assert comparison.path is not None, "a comparison that is tracked has a file"
    figure, rows = folder / f"{comparison.stem}.svg", rows_of([comparison])
    controlled = not comparison.uncontrolled  # else its speed-ups are no results
    if comparison.is_timed and controlled:
        write_figure(figure, lambda: draw_rows(speedup_chart({comparison.panel: [comparison]})))

    def cells(columns: Sequence[str]) -> dict[str, object]:
        # MLflow takes no @: pytorch@modern becomes pytorch:modern.
        names = [(re.sub(r"[^\w.\- :]", " ", row.summary.backend.replace("@", ":")), row) for row in rows]
        return {f"{backend}/{name}": IN_SUMMARY[name](row) for backend, row in names for name in columns}

    tracked = {name: distinct_text(comparison.rows, name) for name in columns_with(Rule.TRACKED)}
    settings = {**tracked, **cells(CHOICES), "machine": comparison.hardware, "controlled": int(controlled)}
    return TrackedComparison(
        name=comparison.stem,
        passed=all(summary.status in PASSED for summary in comparison.summaries),
        settings={name: str(value) for name, value in settings.items() if value != ""},
        figures={key: float(value) for key, value in cells(FIGURES).items() if isinstance(value, float)},
        words={name: str(value) for name, value in cells(WORDS).items() if value},
        files=[comparison.path, *[figure] * figure.exists()],
    )
