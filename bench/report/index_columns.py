"""The columns of the tables over all comparisons in index.html."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.report.content import summary_cells
from bench.report.summary_table import SummaryRow
from bench.report.words import formatting


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        name: the header.
        cell: what is shown.
        key: what a numeric column is sorted by; None if there is no number. None for a column of text.
    """

    name: str
    cell: Callable[[SummaryRow], str]
    key: Callable[[SummaryRow], float | None] | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.key is not None


def _number(name: str, value: Callable[[SummaryRow], float | None], digits: int = 4) -> Column:
    return Column(name=name, cell=lambda line: formatting.number(value(line), digits), key=value)


def _count(name: str, value: Callable[[SummaryRow], int | None]) -> Column:
    return Column(name=name, cell=lambda line: formatting.count(value(line)), key=value)


def _tokens_per_s(line: SummaryRow) -> float | None:
    """Positions per second, padding included; None where there is no throughput."""
    seq_len, samples_per_s = line.comparison.seq_len, line.summary.samples_per_s
    return None if seq_len is None or samples_per_s is None else samples_per_s * seq_len


def _ratio(line: SummaryRow) -> float | None:
    summary = line.summary
    if summary.is_reference and summary.status == "ok":
        return 1.0
    return summary.speedup.ratio if summary.speedup else None


def _own_batch(line: SummaryRow) -> int | None:
    """The micro-batch, only where each backend has its own."""
    return line.summary.micro_batch if line.comparison.at_largest else None


COMPARISON = Column(name="comparison", cell=lambda line: line.comparison.title)
"""Only where the same workload was compared several times."""

COLUMNS = (
    Column(name="model", cell=lambda line: line.comparison.label),
    Column(name="workload", cell=lambda line: line.comparison.workload),
    COMPARISON,
    Column(name="backend", cell=lambda line: formatting.one_line(line.summary.backend)),
    _count("micro-batch", _own_batch),
    _number("samples/s", lambda line: line.summary.samples_per_s),
    _number("tokens/s", _tokens_per_s),
    Column(name=summary_cells.SPEEDUP, cell=lambda line: summary_cells.speedup(line.summary), key=_ratio),
    Column(name="verdict", cell=lambda line: summary_cells.verdict(line.summary)),
    Column(
        name=summary_cells.OVER_BEST,
        cell=lambda line: summary_cells.over_best(line.summary),
        key=lambda line: line.summary.over_best.ratio if line.summary.over_best else None,
    ),
    Column(
        name=summary_cells.OF_LIMIT,
        cell=lambda line: formatting.share(line.summary.roofline_share),
        key=lambda line: line.summary.roofline_share,
    ),
    _number("peak MiB", lambda line: line.comparison.peak_mib(line.summary)),
    _number(summary_cells.OPTIMIZER_STATE, lambda line: summary_cells.optimizer_state_mib(line.summary)),
    _number("set-up s", lambda line: line.summary.setup_s, 3),
    _number("first step s", lambda line: line.summary.first_step_s, 3),
    _count("break-even steps", lambda line: line.summary.break_even_steps),
    _number(summary_cells.ENERGY, lambda line: line.summary.energy_per_sample_j),
    Column(name="status", cell=lambda line: line.summary.status),
)


def shown_columns(lines: Sequence[SummaryRow]) -> list[Column]:
    """The columns in which at least one line has a number, and those of text that tell lines apart."""

    def is_shown(column: Column) -> bool:
        if column is COMPARISON:
            return _is_ambiguous(lines)
        return column.key is None or any(column.key(line) is not None for line in lines)

    return [column for column in COLUMNS if is_shown(column)]


def _is_ambiguous(lines: Sequence[SummaryRow]) -> bool:
    """Whether model and workload stand for more than one comparison."""
    comparisons = {line.comparison.anchor: line.comparison for line in lines}.values()
    return len({(one.model, one.workload) for one in comparisons}) < len(comparisons)
