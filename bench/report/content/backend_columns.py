"""The columns of every table with a row for each backend: summary.csv, a comparison's page, the terminal …"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from bench.report.content.blocks import Column, Link, Small, Table, Text, table
from bench.report.content.collection import ReportedComparison
from bench.report.content.modalities import modality_of
from bench.report.words.formatting import MISSING, count, interval, number, one_line, ratio, share, small
from bench.results.arithmetic import mib
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
    return [BackendRow(comparison=one, summary=summary) for one in comparisons for summary in one.summaries]


class Place(Enum):
    """A table for readers."""

    PAGE = auto()  # of one comparison
    TERMINAL = auto()  # of one comparison, 100 characters wide
    SCREEN = auto()  # of all comparisons of a machine, to sort and filter
    PAPER = auto()  # of chosen comparisons, for a paper or a pull request


PAGE, TERMINAL, SCREEN, PAPER = Place
ALL = frozenset(Place)


Value = Callable[[BackendRow], object]


@dataclass(frozen=True, kw_only=True)
class BackendColumn:
    """One column.

    Attributes:
        key: its name in summary.csv; empty if it is not there.
        value: of a backend, as summary.csv writes it and a screen sorts it; None where it is not known.
        header: its name for readers, which may depend on the backends: all are of one device.
        cell: what readers see; a number with four digits or a text without it.
        is_text: whether it holds no numbers.
        places: the tables for readers that have it.
        is_optional: whether it is left out of a table in which no backend has a value. The screen leaves
            out all such columns.
        look: the class of its cells on a screen; empty for none.
    """

    key: str = ""
    value: Value
    header: str | Callable[[Sequence[BackendRow]], str] = ""
    cell: Callable[[BackendRow], Text] | None = None
    is_text: bool = False
    places: Set[Place] = frozenset()
    is_optional: bool = False
    look: Callable[[BackendRow], str] | None = None

    def is_shown(self, place: Place, rows: Sequence[BackendRow]) -> bool:
        """Whether a table of these backends has it."""
        may_go = self.is_optional or (place is SCREEN and not self.is_text)
        return place in self.places and (not may_go or any(self.value(row) is not None for row in rows))

    def for_readers(self, rows: Sequence[BackendRow]) -> Column[BackendRow]:
        """It as a column of a page's table."""
        return Column(
            header=self.header if isinstance(self.header, str) else self.header(rows),
            cell=self.cell or self._show,
            is_text=self.is_text,
            sort_key=None if self.is_text else self._sort_key,
            look=self.look,
        )

    def _show(self, row: BackendRow) -> str:
        value = self.value(row)
        if isinstance(value, float):
            return number(value)
        if isinstance(value, int):
            return count(value)
        return MISSING if value is None else one_line(str(value))

    def _sort_key(self, row: BackendRow) -> float | None:
        value = self.value(row)
        return float(value) if isinstance(value, int | float) else None


def backend_table(
    place: Place, rows: Sequence[BackendRow], *, label: str = "", is_sortable: bool = False
) -> Table:
    """The table of these backends as one place has it."""
    columns = [column.for_readers(rows) for column in COLUMNS if column.is_shown(place, rows)]
    return table(rows, columns, label=label, is_sortable=is_sortable)


# What cells say


def what_runs(summary: BackendSummary) -> str:
    """Engine, with options where it has any, optimizer and sharding."""
    options = f" ({summary.engine_options})" if summary.engine_options else ""
    # Only plain AdamW leaves open how it updates.
    way = f" ({summary.optimizer_implementation})" if summary.optimizer == "adamw" else ""
    optimizer = summary.optimizer + (way if summary.optimizer_implementation else "")
    return f"{summary.engine}{options} + {optimizer} + {summary.sharding}"


def _ratio(speedup: Speedup | None, verdict: str = "") -> Text:
    """A ratio and its interval."""
    if speedup is None:
        return MISSING
    return [" ".join(filter(None, [ratio(speedup.ratio), verdict])), Small(interval(speedup))]


def _speedup(row: BackendRow, verdict: str = "") -> Text:
    """The speed-up over the reference, or the status of what failed."""
    summary = row.summary
    if summary.status != "ok":
        return summary.status
    if summary.speedup is None and summary.is_reference:
        return ratio(1)
    return _ratio(summary.speedup, verdict)


def _over_best(row: BackendRow) -> Text:
    """The speed-up over the fastest PyTorch row of the comparison."""
    if row.summary.status != "ok":
        return MISSING
    return ratio(1) if row.summary.is_best_pytorch else _ratio(row.summary.over_best)


def _verdict(row: BackendRow) -> str:
    if row.summary.is_reference and row.summary.status == "ok":
        return "reference"
    return row.summary.verdict or MISSING


# What cells hold


def _of(name: str) -> Value:
    return lambda row: getattr(row.summary, name)


def _part(name: str, part: str) -> Value:
    """The ratio or an end of the interval of a speed-up."""
    return lambda row: getattr(getattr(row.summary, name), part, None)


def _shown_ratio(row: BackendRow) -> float | None:
    """The speed-up, which of the reference is 1."""
    if row.summary.is_reference and row.summary.status == "ok":
        return 1.0
    return row.summary.speedup.ratio if row.summary.speedup else None


def _tokens_per_s(row: BackendRow) -> float | None:
    """Positions per second, padding included; None where there is no throughput."""
    seq_len, samples_per_s = row.comparison.seq_len, row.summary.samples_per_s
    return None if seq_len is None or samples_per_s is None else samples_per_s * seq_len


def _state_mib(row: BackendRow) -> str:
    size = row.summary.optimizer_state_bytes
    return number(None if size is None else mib(size))


COLUMNS: Sequence[BackendColumn] = (
    BackendColumn(key="model", value=lambda row: row.comparison.model),
    BackendColumn(
        key="label",
        value=lambda row: row.comparison.label,
        header="model",
        is_text=True,
        places={SCREEN, PAPER},
        look=lambda _: "name",
    ),
    BackendColumn(key="size", value=lambda row: row.cell("size")),
    BackendColumn(key="layers", value=lambda row: row.comparison.layers),
    BackendColumn(key="published_layers", value=lambda row: row.comparison.published_layers),
    BackendColumn(key="modality", value=lambda row: modality_of(row.comparison.model, row.cell("task"))),
    BackendColumn(key="task", value=lambda row: row.cell("task")),
    BackendColumn(key="machine", value=lambda row: row.comparison.hardware),
    BackendColumn(
        key="workload",
        value=lambda row: row.comparison.workload,
        header="workload",
        is_text=True,
        places={SCREEN},
        look=lambda _: "words",
    ),
    BackendColumn(
        value=lambda row: row.comparison.title,
        header="comparison",
        cell=lambda row: Link(row.comparison.title, f"#{row.comparison.anchor}"),
        is_text=True,
        places={SCREEN},
        look=lambda _: "words",
    ),
    BackendColumn(
        key="backend",
        value=_of("backend"),
        header="backend",
        is_text=True,
        places=ALL,
        look=lambda _: "name",
    ),
    BackendColumn(key="reference", value=lambda row: row.comparison.reference),
    BackendColumn(
        value=lambda row: what_runs(row.summary),
        header="what runs",
        is_text=True,
        places={PAGE},
    ),
    BackendColumn(
        value=lambda row: row.summary.micro_batch if row.comparison.at_largest else None,
        header="micro-batch",
        places=ALL - {PAPER},
        is_optional=True,
    ),
    BackendColumn(key="samples_per_s", value=_of("samples_per_s"), header="samples/s", places=ALL),
    BackendColumn(value=_tokens_per_s, header="tokens/s", places={SCREEN}),
    BackendColumn(value=_shown_ratio, header="speed-up [95 %]", cell=_speedup, places=ALL - {TERMINAL}),
    BackendColumn(  # a terminal has no room for another column
        value=_shown_ratio,
        header="speed-up [95 %]",
        cell=lambda row: _speedup(row, row.summary.verdict or ""),
        places={TERMINAL},
    ),
    BackendColumn(key="speedup", value=_part("speedup", "ratio")),  # blank for the reference
    BackendColumn(key="speedup_low", value=_part("speedup", "low")),
    BackendColumn(key="speedup_high", value=_part("speedup", "high")),
    BackendColumn(
        key="verdict",
        value=_of("verdict"),
        header="verdict",
        cell=_verdict,
        is_text=True,
        places=ALL - {TERMINAL},
        look=lambda row: row.summary.verdict or "",
    ),
    BackendColumn(key="is_best_pytorch", value=lambda row: int(row.summary.is_best_pytorch)),
    BackendColumn(  # blank for the best itself, and where it is the reference
        key="over_best",
        value=_part("over_best", "ratio"),
        header="over best PyTorch [95 %]",
        cell=_over_best,
        places=ALL - {PAPER},
        is_optional=True,
    ),
    BackendColumn(
        value=_part("over_best", "ratio"),
        header="over best PyTorch [95 %]",
        cell=_over_best,
        places=frozenset((Place.PAPER,)),
    ),
    BackendColumn(key="over_best_low", value=_part("over_best", "low")),
    BackendColumn(key="over_best_high", value=_part("over_best", "high")),
    BackendColumn(
        value=_of("roofline_share"),
        header="of limit",
        cell=lambda row: share(row.summary.roofline_share),
        places={PAGE, SCREEN},
        is_optional=True,
    ),
    BackendColumn(
        key="peak_mib",
        value=lambda row: row.comparison.peak_mib(row.summary),
        header=lambda rows: "host peak MiB/rank" if rows[0].comparison.on_cpu else "device peak MiB",
        places=ALL,
    ),
    BackendColumn(
        key="optimizer_state_bytes",
        value=_of("optimizer_state_bytes"),
        header="optimizer state MiB/rank",
        cell=_state_mib,
        places=ALL - {TERMINAL},
    ),
    BackendColumn(
        key="energy_per_sample_j",
        value=_of("energy_per_sample_j"),
        header="energy J/sample",
        places={PAGE, SCREEN},
        is_optional=True,
    ),
    BackendColumn(
        value=_of("setup_s"),
        header="set-up s",
        cell=lambda row: number(row.summary.setup_s, 3),
        places={PAGE, SCREEN},
    ),
    BackendColumn(
        value=_of("first_step_s"),
        header="first step s",
        cell=lambda row: number(row.summary.first_step_s, 3),
        places={PAGE, SCREEN},
    ),
    BackendColumn(value=_of("break_even_steps"), header="break-even steps", places=ALL - {PAPER}),
    BackendColumn(
        value=_of("loss_difference"),
        header="loss difference",
        cell=lambda row: small(row.summary.loss_difference),
        places={PAGE, TERMINAL},
    ),
    BackendColumn(key="status", value=_of("status"), header="status", is_text=True, places=ALL - {PAPER}),
    BackendColumn(key="message", value=_of("message")),
    # 0: its speed-ups are no results
    BackendColumn(key="controlled", value=lambda row: int(not row.comparison.uncontrolled)),
    BackendColumn(
        key="file",
        value=lambda row: Path(row.comparison.path or f"{row.comparison.stem}.csv").as_posix(),
    ),
    BackendColumn(key="command", value=lambda row: row.comparison.command),
    BackendColumn(key="git_commit", value=lambda row: row.cell("git_commit")),
)
"""Every column, in the order of every table."""

IN_SUMMARY = {column.key: column.value for column in COLUMNS if column.key}
"""The columns of summary.csv by their names."""
