"""The columns of every table with a row for each backend: summary.csv, a comparison's page, the terminal …"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from bench.report.content.blocks import Column, Small, Table, Text, table
from bench.report.content.collection import ReportedComparison
from bench.report.words.formatting import MISSING, number, one_line, ratio, share, small
from bench.results.arithmetic import mib
from bench.statistics.backend_blocks import WITH_FILES, WITHOUT_FILES
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary
from bench.statistics.table_values import distinct_text


@dataclass(frozen=True, kw_only=True)
class BackendRow:
    """One backend of one comparison."""

    comparison: ReportedComparison
    summary: BackendSummary

    def cell(self, column: str) -> str:
        """The value of a column of the results file, the same for all backends."""
        return one_line(distinct_text(self.comparison.rows, column))


def rows_of(comparisons: Sequence[ReportedComparison]) -> list[BackendRow]:
    """A row for every backend of these comparisons."""
    return [
        BackendRow(comparison=comparison, summary=summary)
        for comparison in comparisons
        for summary in comparison.summaries
    ]


Value = Callable[[BackendRow], object]


def _plain(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int):
        return f"{value:,}"
    return MISSING if value is None else one_line(str(value))


@dataclass(frozen=True)
class BackendColumn:
    """One column."""

    key: str  # its name in summary.csv; empty if the file leaves it out
    value: Value  # what summary.csv writes of a backend; None where it is not known
    # its name on pages, which may depend on the backends (all are of one device); empty: no page has it
    header: str | Callable[[Sequence[BackendRow]], str] = ""
    in_terminal: bool = False  # whether the table in the terminal has it, too
    _: KW_ONLY
    cell: Callable[[BackendRow], Text] | None = None  # what readers see, where this needs more than the value
    words: Callable[[Any], str] = _plain  # what readers see of the value, without `cell`
    is_text: bool = False  # whether it holds no numbers
    always: bool = False  # whether the column stays where no backend has a value

    def for_readers(self, rows: Sequence[BackendRow]) -> Column[BackendRow]:
        """The column as one of a page's table."""
        return Column(
            header=self.header if isinstance(self.header, str) else self.header(rows),
            cell=self.cell or (lambda row: self.words(self.value(row))),
            is_text=self.is_text,
        )


def backend_table(rows: Sequence[BackendRow], *, in_terminal: bool = False) -> Table:
    """The table of these backends on a page or in the terminal, without columns that have no value."""
    columns = [
        column.for_readers(rows)
        for column in COLUMNS
        if column.header
        and (column.in_terminal or not in_terminal)
        and (column.always or any(column.value(row) not in (None, "") for row in rows))
    ]
    return table(rows, columns)


# What cells say


def what_runs(summary: BackendSummary) -> str:
    """Engine, with options where it has any, optimizer and sharding."""
    options = f" ({summary.engine_options})" if summary.engine_options else ""
    # Only plain AdamW has several implementations of its update.
    way = f" ({summary.optimizer_implementation})" if summary.optimizer == "adamw" else ""
    optimizer = summary.optimizer + (way if summary.optimizer_implementation else "")
    return f"{summary.engine}{options} + {optimizer} + {summary.sharding}"


def ratio_above_interval(speedup: Speedup | None) -> Text:
    """A ratio with its interval, which stands below it where a cell has several lines."""
    return MISSING if speedup is None else [ratio(speedup.ratio), Small(speedup.interval)]


def _speedup(row: BackendRow) -> Text:
    summary = row.summary
    if summary.status != "ok":
        return summary.status
    if summary.speedup is None and summary.is_reference:
        return ratio(1)
    return ratio_above_interval(summary.speedup)


def _over_best(row: BackendRow) -> Text:
    if row.summary.status != "ok":
        return MISSING
    return ratio(1) if row.summary.is_best_pytorch else ratio_above_interval(row.summary.over_best)


def _verdict(row: BackendRow) -> str:
    if row.summary.is_reference and row.summary.status == "ok":
        return "reference"
    return row.summary.verdict or MISSING


# What cells hold


def _part(name: str, part: str) -> Value:
    return lambda row: getattr(getattr(row.summary, name), part, None)


PEAKS = {
    WITHOUT_FILES: "training memory MiB/rank",
    WITH_FILES: "host peak MiB/rank",
    "device_peak_mib": "device peak MiB",
}
"""By their column, what readers see above peaks of memory."""


def _peak_header(rows: Sequence[BackendRow]) -> str:
    """What the peaks include; a table of several comparisons may mix old files and new ones."""
    return " or ".join(dict.fromkeys(PEAKS[row.comparison.peak_column] for row in rows))


_text = partial(BackendColumn, is_text=True, always=True)
_seconds = partial(number, digits=3)

COLUMNS: Sequence[BackendColumn] = (
    BackendColumn("model", attrgetter("comparison.model")),
    BackendColumn("label", attrgetter("comparison.label")),
    BackendColumn("size", lambda row: row.cell("size")),
    BackendColumn("layers", lambda row: row.comparison.whole("layers")),
    BackendColumn("published_layers", lambda row: row.comparison.whole("published_layers")),
    BackendColumn("task", lambda row: row.cell("task")),
    BackendColumn("machine", attrgetter("comparison.hardware")),
    BackendColumn("workload", attrgetter("comparison.workload")),
    _text("backend", attrgetter("summary.backend"), "backend", True),
    BackendColumn("reference", attrgetter("comparison.reference")),
    _text("", lambda row: what_runs(row.summary), "what runs"),
    *(
        BackendColumn(name, attrgetter(f"summary.{name}"))
        for name in ("engine", "optimizer", "sharding", "stack")
    ),
    BackendColumn(
        "", lambda row: row.summary.micro_batch if row.comparison.at_largest else None, "micro-batch", True
    ),
    BackendColumn("samples_per_s", attrgetter("summary.samples_per_s"), "samples/s", True),
    BackendColumn(  # blank for the reference
        "speedup", _part("speedup", "ratio"), "speed-up [95 %]", True, cell=_speedup, always=True
    ),
    BackendColumn("speedup_low", _part("speedup", "low")),
    BackendColumn("speedup_high", _part("speedup", "high")),
    _text("verdict", attrgetter("summary.verdict"), "verdict", True, cell=_verdict),
    BackendColumn("is_best_pytorch", lambda row: int(row.summary.is_best_pytorch)),
    BackendColumn(  # blank for the best itself, and where it is the reference
        "over_best", _part("over_best", "ratio"), "over best PyTorch [95 %]", True, cell=_over_best
    ),
    BackendColumn("over_best_low", _part("over_best", "low")),
    BackendColumn("over_best_high", _part("over_best", "high")),
    BackendColumn("", attrgetter("summary.roofline_share"), "of limit", words=share),
    BackendColumn("peak_mib", attrgetter("summary.peak_mib"), _peak_header, True),
    BackendColumn("peak_of", attrgetter("comparison.peak_column")),
    BackendColumn(
        "optimizer_state_bytes",
        attrgetter("summary.optimizer_state_bytes"),
        "optimizer state MiB/rank",
        words=lambda size: number(None if size is None else mib(size)),
    ),
    BackendColumn("energy_per_sample_j", attrgetter("summary.energy_per_sample_j"), "energy J/sample"),
    BackendColumn("", attrgetter("summary.setup_s"), "set-up s", words=_seconds),
    BackendColumn("", attrgetter("summary.first_step_s"), "first step s", words=_seconds),
    BackendColumn("", attrgetter("summary.break_even_steps"), "break-even steps"),
    BackendColumn("loss_difference", attrgetter("summary.loss_difference"), "loss difference", words=small),
    _text("status", attrgetter("summary.status"), "status"),
    BackendColumn("message", attrgetter("summary.message")),
    # 0: its speed-ups are no results
    BackendColumn("controlled", lambda row: int(not row.comparison.uncontrolled)),
    BackendColumn("file", lambda row: Path(row.comparison.path or f"{row.comparison.stem}.csv").as_posix()),
    BackendColumn("command", attrgetter("comparison.command")),
    BackendColumn("git_commit", lambda row: row.cell("git_commit")),
)
"""Every column, in the order of every table."""

IN_SUMMARY = {column.key: column.value for column in COLUMNS if column.key}
