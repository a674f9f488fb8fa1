"""The columns of the tables over all comparisons; the Markdown overview and the page share them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.analysis.summary import BackendSummary
from bench.report import text
from bench.report.collection import Collection, Comparison
from bench.results import arithmetic


@dataclass(frozen=True, kw_only=True)
class Line:
    """One backend of one comparison."""

    comparison: Comparison
    summary: BackendSummary


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        name: the header.
        cell: what is shown.
        key: what a numeric column is sorted by; None if there is no figure. None for a column of text.
    """

    name: str
    cell: Callable[[Line], str]
    key: Callable[[Line], float | None] | None = None


def _figure(name: str, value: Callable[[Line], float | None], digits: int = 4) -> Column:
    return Column(name=name, cell=lambda line: text.number(value(line), digits), key=value)


def tokens_per_s(line: Line) -> float | None:
    """Positions per second, padding included; None where there is no throughput."""
    seq_len, samples_per_s = line.comparison.seq_len, line.summary.samples_per_s
    return None if seq_len is None or samples_per_s is None else samples_per_s * seq_len


def _speedup(line: Line) -> str:
    one = line.summary
    if one.status != "ok":
        return one.status
    if one.speedup:
        return f"{text.ratio(one.speedup.ratio)} {text.interval(one.speedup)}"
    return text.ratio(1) if one.is_reference else text.MISSING


def _ratio(line: Line) -> float | None:
    one = line.summary
    if one.is_reference and one.status == "ok":
        return 1.0
    return one.speedup.ratio if one.speedup else None


def _verdict(line: Line) -> str:
    one = line.summary
    return "reference" if one.is_reference and one.status == "ok" else one.verdict or text.MISSING


def _own_batch(line: Line) -> int | None:
    """A figure only where each backend has its own."""
    return line.summary.micro_batch if line.comparison.at_largest else None


def _micro_batch(line: Line) -> str:
    size = _own_batch(line)
    return text.MISSING if size is None else f"{size:,}"


def _state(line: Line) -> float | None:
    size = line.summary.optimizer_state_bytes
    return None if size is None else arithmetic.mib(size)


def _break_even(line: Line) -> str:
    steps = line.summary.break_even_steps
    return text.MISSING if steps is None else f"{steps:,}"


COMPARISON = Column(
    name="comparison",
    cell=lambda line: line.comparison.stem.removeprefix(f"{line.comparison.model}-"),
)
"""Only where the same workload was compared several times."""

COLUMNS = (
    Column(name="model", cell=lambda line: line.comparison.model),
    Column(name="workload", cell=lambda line: line.comparison.workload),
    COMPARISON,
    Column(name="backend", cell=lambda line: text.one_line(line.summary.backend)),
    Column(name="micro-batch", cell=_micro_batch, key=_own_batch),
    _figure("samples/s", lambda line: line.summary.samples_per_s),
    _figure("tokens/s", tokens_per_s),
    Column(name="speed-up [95 %]", cell=_speedup, key=_ratio),
    Column(name="verdict", cell=_verdict),
    Column(
        name="of matmul rate",
        cell=lambda line: text.share(line.summary.roofline_share),
        key=lambda line: line.summary.roofline_share,
    ),
    _figure("peak MiB", lambda line: line.comparison.peak_mib(line.summary)),
    _figure("optimizer state MiB/rank", _state),
    _figure("set-up s", lambda line: line.summary.setup_s, 3),
    _figure("first step s", lambda line: line.summary.first_step_s, 3),
    Column(name="break-even steps", cell=_break_even, key=lambda line: line.summary.break_even_steps),
    _figure("energy J/sample", lambda line: line.summary.energy_per_sample_j),
    Column(name="status", cell=lambda line: line.summary.status),
)


def lines(comparisons: Sequence[Comparison]) -> list[Line]:
    """A line for every backend of these comparisons."""
    return [Line(comparison=one, summary=summary) for one in comparisons for summary in one.summaries]


def shown_columns(found: Sequence[Line]) -> list[Column]:
    """The columns in which at least one line has a figure, and those of text that tell lines apart."""

    def is_shown(one: Column) -> bool:
        if one is COMPARISON:
            return _is_ambiguous(found)
        return one.key is None or any(one.key(line) is not None for line in found)

    return [one for one in COLUMNS if is_shown(one)]


def _is_ambiguous(found: Sequence[Line]) -> bool:
    """Whether model and workload stand for more than one comparison."""
    comparisons = {line.comparison.stem: line.comparison for line in found}.values()
    return len({(one.model, one.workload) for one in comparisons}) < len(comparisons)


@dataclass(frozen=True, kw_only=True)
class Mean:
    """One backend over all comparisons of a panel.

    Attributes:
        ratio: the geometric mean of its speed-ups, slowdowns included as they are; a workload that
            was compared several times counts once. None without any.
        speedups: how many have one.
        tried: how many comparisons asked for it.
    """

    backend: str
    ratio: float | None
    speedups: int
    tried: int


def means(comparisons: Sequence[Comparison]) -> list[Mean]:
    """Each backend's geometric mean over comparisons with the same reference, and how many passed."""
    found: dict[str, list[Line]] = {}
    for line in lines(comparisons):
        if not line.summary.is_reference:
            name = f"{line.summary.backend} over {line.comparison.reference}"
            found.setdefault(name, []).append(line)
    return [_mean(name, mine) for name, mine in found.items()]


def _mean(backend: str, mine: Sequence[Line]) -> Mean:
    workloads: dict[tuple[str, str], list[float]] = {}
    for line in mine:
        if line.summary.speedup:
            key = (line.comparison.model, line.comparison.workload)
            workloads.setdefault(key, []).append(float(np.log(line.summary.speedup.ratio)))
    middles = [arithmetic.mean(logs) for logs in workloads.values()]
    return Mean(
        backend=backend,
        ratio=float(np.exp(arithmetic.mean(middles))) if middles else None,
        speedups=sum(map(len, workloads.values())),
        tried=len(mine),
    )


def left_out(collection: Collection) -> list[Comparison]:
    """The comparisons whose speed-ups are no results, since something was left alone on purpose."""
    return [one for one in collection.comparisons if one.uncontrolled]
