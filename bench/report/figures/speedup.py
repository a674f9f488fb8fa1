"""The figure of speed-ups over the reference, with intervals, and published ones as marks of another kind."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from bench.analysis import reference
from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.model_chart import hardware_of
from bench.report.figures.pages import Page, comparisons_of, row_panels
from bench.report.figures.row_chart import draw_rows
from bench.report.figures.rows import REACH, Axis, Bar, Marks, Row, RowChart, ends_of
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES, ratio
from bench.statistics.summary import BackendSummary

ROWS_WITH_POINTS = 24
"""Rows of a page at most on which single rounds are drawn as points; on more they would blur."""


def draw_speedup(page: Page, theme: Theme) -> Figure:
    """Bars against the reference at 1, with intervals; published figures as marks of another kind."""
    everything = comparisons_of(page)
    references = ", ".join(dict.fromkeys(comparison.reference for comparison in everything))
    with_points = sum(len(comparison.summaries) for comparison in everything) <= ROWS_WITH_POINTS
    at_largest = everything[0].at_largest
    which = "each backend at its largest batch" if at_largest else "all backends at the same batch"
    make_row = partial(_speedup_row, theme=theme, with_points=with_points)
    chart = RowChart(
        title=f"Throughput relative to {references}, {which}",
        panels=row_panels(page, make_row, relative=True, best=_best_pytorch),
        axis=Axis(low=0, high=_limit(everything)),
        label=f"speed-up over {references} ({TIMES}, higher is better)",
        caption=_caption(everything, with_points=with_points),
        line=1,
        band=None if at_largest else reference.BLOG_BAND,
    )
    return draw_rows(chart, theme)


def _caption(comparisons: Sequence[ReportedComparison], *, with_points: bool) -> str:
    others = [(comparison, other) for comparison in comparisons for other in comparison.others]
    published = [mark for one, other in others if (mark := _published(one, other))]
    notes = sorted({other.speedup.note for _, other in others if other.speedup} - {""})
    sentences = ["; ".join(["Whiskers: 95 % interval", *notes]) + "."]
    if with_points:
        sentences.append("Points: single rounds.")
    if any(_best_pytorch(comparison) for comparison in comparisons):
        sentences.append("Blue lines: the fastest PyTorch of the same comparison.")
    if not comparisons[0].at_largest:
        sentences.append(
            "Grey band: what the blog of January 2023 claims for ONNX Runtime with ZeRO-1 on 8 A100, 39 % to "
            "130 % more."
        )
    if published:
        where = "; ".join(dict.fromkeys(map(hardware_of, published)))
        sentences.append(
            f"Diamonds: published for the same model on other hardware ({where}), not comparable."
        )
    flags = dict.fromkeys(mark.flag for mark in published if mark.flag)
    return " ".join([*sentences, *(f"Flagged: {reference.FLAGS[flag]}." for flag in flags)])


def _best_pytorch(one: ReportedComparison) -> float | None:
    """The speed-up of the fastest PyTorch row, unless the reference itself is that."""
    return next(
        (other.speedup.ratio for other in one.others if other.is_best_pytorch and other.speedup), None
    )


def _published(one: ReportedComparison, summary: BackendSummary) -> reference.Published | None:
    """The published speed-up of this backend on this model, measured by the same rule of batches."""
    return next((mark for mark in one.published if mark.backend == summary.backend), None)


def _speedup_row(one: ReportedComparison, summary: BackendSummary, *, theme: Theme, with_points: bool) -> Row:
    marks = []
    if published := _published(one, summary):
        marks.append(Marks(values=[published.ratio], mark=style.diamond(theme, theme.ground)))
    speedup = summary.speedup
    if summary.status != "ok" or speedup is None:
        reason = summary.status if summary.status != "ok" else summary.message
        return Row(name=summary.backend, reason=reason, marks=marks)
    if with_points:
        points = np.exp(np.concatenate([np.array(logs) for logs in summary.log_ratios.values()]))
        faint = {"marker": "o", "markersize": 1.6, "color": theme.ink, "alpha": 0.3, "mew": 0, "zorder": 4}
        marks.append(Marks(values=points, down=np.linspace(-0.25, 0.25, len(points)).tolist(), mark=faint))
    return Row(
        name=summary.backend,
        bars=[Bar(0, speedup.ratio, style.look(summary.backend))],
        interval=ends_of(speedup),
        marks=marks,
        beside=f"{ratio(speedup.ratio)} {summary.verdict} {speedup.interval}",
    )


def _limit(comparisons: Sequence[ReportedComparison]) -> float:
    """Right end of the axis: beyond the band, all bars, and all intervals that are not far longer."""
    speedups = [other.speedup for comparison in comparisons for other in comparison.others if other.speedup]
    ratios = [reference.BLOG_BAND[1], *(speedup.ratio for speedup in speedups)]
    ratios += [mark.ratio for comparison in comparisons for mark in comparison.published]
    ends = [speedup.high for speedup in speedups if speedup.high]
    return 1.04 * max(max(ratios), min(max(ends, default=0.0), REACH * max(ratios)))
