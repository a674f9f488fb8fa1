"""Figures with a row for each backend of many comparisons: speed-ups, peaks of memory."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.rows import REACH, Bar, Marks, Row, RowChart, RowGroup, ends_of, stacked
from bench.report.figures.style import Look, bar_entry
from bench.report.words import describe
from bench.report.words.formatting import TIMES, number, ratio
from bench.statistics.backend_blocks import WITH_FILES
from bench.statistics.intervals import Speedup
from bench.statistics.summary import BackendSummary

ROWS_PER_PAGE = 48  # a figure that would have more is continued on another page

Page: TypeAlias = dict[str, list[ReportedComparison]]
"""The panels of a figure by heading. Equal and largest batches never share a page."""


def cut_into_pages(panels: Page) -> list[Page]:
    """Cut the panels into pages of at most `ROWS_PER_PAGE` rows; a comparison is never cut."""
    pages: list[Page] = []
    used, at_largest = ROWS_PER_PAGE, False
    for heading, comparisons in panels.items():
        for comparison in comparisons:
            used += len(comparison.summaries)
            if used > ROWS_PER_PAGE or at_largest != comparison.at_largest:
                pages.append({})
                used, at_largest = len(comparison.summaries), comparison.at_largest
            pages[-1].setdefault(heading, []).append(comparison)
    return pages


def comparisons_of(page: Page) -> list[ReportedComparison]:
    """All comparisons of a page."""
    return [comparison for comparisons in page.values() for comparison in comparisons]


def row_panels(
    page: Page, row: Callable[[ReportedComparison, BackendSummary, Look], Row], *, relative: bool = False
) -> dict[str, list[RowGroup]]:
    """The panels of a page, with a row for each backend; `relative` ones have none for the reference."""
    looks = style.looks(each.backend for one in comparisons_of(page) for each in one.summaries)

    def group(comparison: ReportedComparison) -> RowGroup:
        batches = f" ({describe.micro_batches(comparison.rows)})" if comparison.at_largest else ""
        said = comparison.panel.split(", ")
        words = [part for part in comparison.title.split(", ") if part not in said]
        return RowGroup(
            heading=f"{', '.join(words)}{batches}",
            rows=[
                row(comparison, each, looks[each.backend])
                for each in (comparison.others if relative else comparison.summaries)
            ],
            best=_best_pytorch(comparison) if relative else None,
        )

    return {title: [*map(group, comparisons)] for title, comparisons in page.items()}


def speedup_chart(page: Page) -> RowChart:
    """Bars against the reference at 1, with intervals."""
    everything = comparisons_of(page)
    speedups = [other.speedup for comparison in everything for other in comparison.others if other.speedup]
    references = ", ".join(dict.fromkeys(comparison.reference for comparison in everything))
    at_largest = everything[0].at_largest
    which = ", each backend at its largest batch" if at_largest else ""
    return RowChart(
        title=f"Throughput relative to {references}{which}",
        panels=row_panels(page, _speedup_row, relative=True),
        limits=(0, _limit(speedups)),
        label=f"speed-up over {references} ({TIMES}, higher is better)",
        caption=_caption(speedups, with_best=any(map(_best_pytorch, everything))),
        line=1,
    )


def _caption(speedups: Sequence[Speedup], *, with_best: bool) -> str:
    notes = sorted({speedup.note for speedup in speedups} - {""})
    best = " Blue lines: the fastest PyTorch of the same comparison." * with_best
    return f"{'; '.join(['Whiskers: 95 % interval', *notes])}. Points: single rounds.{best}"


def _best_pytorch(comparison: ReportedComparison) -> float | None:
    """The speed-up of the fastest PyTorch row, unless that is the reference itself."""
    best = comparison.best_pytorch
    return best.speedup.ratio if best and best.speedup else None


def _speedup_row(_: ReportedComparison, summary: BackendSummary, look: Look) -> Row:
    speedup = summary.speedup
    if summary.status != "ok" or speedup is None:
        reason = summary.status if summary.status != "ok" else summary.message
        return Row(name=summary.backend, reason=reason)
    rounds = np.exp(np.concatenate(list(summary.log_ratios.values())))
    point = {"marker": "o", "markersize": 1.6, "color": style.INK, "alpha": 0.3, "mew": 0, "zorder": 4}
    down = np.linspace(-0.25, 0.25, len(rounds)).tolist()
    return Row(
        name=summary.backend,
        bars=[Bar(0, speedup.ratio, look)],
        interval=ends_of(speedup),
        marks=[Marks(values=rounds, down=down, mark=point)],
        beside=f"{ratio(speedup.ratio)} {summary.verdict} {speedup.interval}",
    )


def _limit(speedups: Sequence[Speedup]) -> float:
    """Right end of the axis: beyond all bars, and all intervals that are not far longer."""
    ratios = [1.0, *(speedup.ratio for speedup in speedups)]
    ends = [speedup.high for speedup in speedups if speedup.high]
    return 1.04 * max(max(ratios), min(max(ends, default=0.0), REACH * max(ratios)))


MEMORY_CAPTION = (
    "The whole bar is measured: on a CPU the rank that has most, on a GPU the device. Weights, gradients and "
    "optimizer states are predicted from the number of parameters (under ZeRO-1 a rank's share of the "
    "states, and a copy of its share of the weights); libraries are measured before there is a model; "
    "where they were not, a bar is not divided."
)


def memory_chart(page: Page) -> RowChart:
    """The peaks of the timed blocks, divided into what the parameters predict and the rest."""
    everything = comparisons_of(page)
    peaks = [other.peak_mib or 0.0 for comparison in everything for other in comparison.summaries]
    kinds = {kind for comparison in everything for other in comparison.summaries for kind in _parts(other)}
    at_largest = everything[0].at_largest  # each fills the memory it may use, so that less is not better
    better = "; all may use the same" if at_largest else ", lower is better"
    columns = {comparison.peak_column for comparison in everything}
    files = ", library files included" if columns == {WITH_FILES} else ""
    return RowChart(
        title="Peak memory at each backend's largest batch" if at_largest else "Peak memory",
        panels=row_panels(page, partial(_memory_row, mixed=len(columns) > 1)),
        limits=(0, 1.04 * max([1.0, *peaks])),
        label=f"peak of the timed blocks per rank or GPU{files} (MiB{better})",
        caption=MEMORY_CAPTION,
        legend=[bar_entry(kind, look) for kind, look in style.PARTS.items() if kind in kinds],
    )


def _memory_row(comparison: ReportedComparison, summary: BackendSummary, look: Look, *, mixed: bool) -> Row:
    peak = summary.peak_mib
    if peak is None:
        return Row(name=summary.backend, reason=summary.status if summary.status != "ok" else "no figure")
    whole = [Bar(0, peak, look)]
    bars = stacked(_parts(summary), style.PARTS) or whole
    with_files = ", library files included" if comparison.peak_column == WITH_FILES and mixed else ""
    return Row(name=summary.backend, bars=bars, beside=f"{number(peak)} MiB{with_files}")


def _parts(summary: BackendSummary) -> dict[str, float]:
    parts = summary.memory_parts
    if parts is None:
        return {}
    sizes = (parts.runtime, parts.weights, parts.gradients, parts.optimizer, parts.rest)
    return {kind: size for kind, size in zip(style.PARTS, sizes, strict=True) if size is not None}
