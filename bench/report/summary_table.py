"""One row for each model and backend: summary.csv, and the tables for a pull request and for a paper."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.analysis.table_values import distinct_text
from bench.report.content import summary_cells
from bench.report.content.collection import ReportedComparison
from bench.report.content.modalities import modality_of
from bench.report.content.selection import panels_of
from bench.report.markdown import table_of
from bench.report.render import latex
from bench.report.render.markdown import escaped
from bench.report.words.formatting import MISSING, number, one_line
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary

FILE = "summary.csv"


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """One backend of one comparison."""

    comparison: ReportedComparison
    summary: BackendSummary

    def cell(self, column: str) -> str:
        """The column's value, the same for all backends."""
        return one_line(distinct_text(self.comparison.rows, column))


Value = Callable[[SummaryRow], object]


def _interval(part: str, of: str) -> Value:
    def value(row: SummaryRow) -> object:
        found: Speedup | None = getattr(row.summary, of)
        return None if found is None else getattr(found, part)

    return value


COLUMNS: Mapping[str, Value] = {
    "model": lambda row: row.comparison.model,
    "label": lambda row: row.comparison.label,
    "size": lambda row: row.cell("size"),
    "layers": lambda row: row.comparison.layers,
    "published_layers": lambda row: row.comparison.published_layers,
    "modality": lambda row: modality_of(row.comparison.model, row.cell("task")),
    "task": lambda row: row.cell("task"),
    "machine": lambda row: row.comparison.hardware,
    "workload": lambda row: row.comparison.workload,
    "backend": lambda row: row.summary.backend,
    "reference": lambda row: row.comparison.reference,
    "samples_per_s": lambda row: row.summary.samples_per_s,
    "speedup": _interval("ratio", "speedup"),  # blank for the reference, like its interval
    "speedup_low": _interval("low", "speedup"),
    "speedup_high": _interval("high", "speedup"),
    "verdict": lambda row: row.summary.verdict,
    "is_best_pytorch": lambda row: int(row.summary.is_best_pytorch),
    "over_best": _interval("ratio", "over_best"),  # blank for the best itself, and where it is the reference
    "over_best_low": _interval("low", "over_best"),
    "over_best_high": _interval("high", "over_best"),
    "peak_mib": lambda row: row.comparison.peak_mib(row.summary),
    "optimizer_state_bytes": lambda row: row.summary.optimizer_state_bytes,
    "energy_per_sample_j": lambda row: row.summary.energy_per_sample_j,
    "status": lambda row: row.summary.status,
    "message": lambda row: row.summary.message,
    "controlled": lambda row: int(not row.comparison.uncontrolled),  # 0: its speed-ups are no results
    "file": lambda row: Path(row.comparison.path or f"{row.comparison.stem}.csv").as_posix(),
    "command": lambda row: row.comparison.command,
    "git_commit": lambda row: row.cell("git_commit"),
}
"""Every column of summary.csv and where its value comes from; what is not known is blank."""


def rows_of(comparisons: Sequence[ReportedComparison]) -> list[SummaryRow]:
    """A row for every backend of these comparisons."""
    return [SummaryRow(comparison=one, summary=summary) for one in comparisons for summary in one.summaries]


def render_csv(rows: Sequence[SummaryRow], columns: Mapping[str, Value] = COLUMNS) -> str:
    """A tidy file, by default summary.csv."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(value(row)) for value in columns.values()] for row in rows)
    return file.getvalue()


def _text(value: object) -> str:
    """A cell: floats with all their digits, blank where there is nothing or no finite number."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(float(value)) if abs(value) < float("inf") else ""
    return one_line(str(value))


FOR_READERS: Mapping[str, Callable[[SummaryRow], str]] = {
    "model": lambda row: row.comparison.label,
    "backend": lambda row: one_line(row.summary.backend),
    "samples/s": lambda row: number(row.summary.samples_per_s),
    summary_cells.SPEEDUP: lambda row: summary_cells.speedup(row.summary),
    "verdict": lambda row: summary_cells.verdict(row.summary) if row.summary.status == "ok" else MISSING,
    summary_cells.OVER_BEST: lambda row: summary_cells.over_best(row.summary),
    "peak MiB": lambda row: number(row.comparison.peak_mib(row.summary)),
    "optimizer state MiB": lambda row: number(summary_cells.optimizer_state_mib(row.summary)),
}
"""The columns of tables for readers."""

TEXT = {"model", "backend", "verdict"}
"""Those of them that hold no numbers."""


def render_markdown(rows: Sequence[SummaryRow]) -> str:
    """A table for a pull request: one for each machine, under its name."""
    parts: list[str] = []
    for machine, mine in _by_machine(rows).items():
        cells = table_of(mine, FOR_READERS, FOR_READERS.keys() - TEXT)
        parts += [f"**{escaped(machine)}**", "", *cells, *_notes(mine)]
    return "\n".join(parts)


def _notes(rows: Sequence[SummaryRow]) -> list[str]:
    """Why there is no number, and an empty line behind them."""
    notes = [
        f"- {escaped(row.comparison.label)}, {escaped(row.summary.backend)}: {escaped(row.summary.message)}"
        for row in rows
        if row.summary.message and row.summary.speedup is None
    ]
    return [*notes, ""] if notes else []


def render_latex(rows: Sequence[SummaryRow]) -> str:
    """A table for a paper, for the package booktabs: one for each machine, which its caption names."""
    return "\n".join(
        latex.render_table(
            list(FOR_READERS),
            [[cell(row) for cell in FOR_READERS.values()] for row in mine],
            text=TEXT,
            caption=f"Samples/s, and speed-up over {over} with its 95 % interval over launches. "
            f"Machine: {machine}.",
        )
        for machine, mine in _by_machine(rows).items()
        for over in [" or ".join(dict.fromkeys(one_line(row.comparison.reference) for row in mine))]
    )


def _by_machine(rows: Sequence[SummaryRow]) -> dict[str, list[SummaryRow]]:
    """The rows under the headings of `panels_of`."""
    comparisons = list({id(row.comparison): row.comparison for row in rows}.values())
    return {
        heading: [row for row in rows if any(row.comparison is one for one in group)]
        for heading, group in panels_of(comparisons).items()
    }
