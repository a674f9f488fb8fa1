"""The figure of speed-ups over the reference, with intervals, and published ones as marks of another kind."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis import reference
from bench.report.collection import ReportedComparison
from bench.report.figures import chart
from bench.report.figures.chart import Dots, Row
from bench.report.figures.model_chart import hardware_of
from bench.report.figures.pages import Page, comparisons_of, panels_of
from bench.report.figures.style import LIGHT
from bench.report.formatting import TIMES, interval, ratio
from bench.statistics.summary import BackendSummary

ROWS_WITH_POINTS = 24
"""Rows of a page at most on which single rounds are drawn as points; on more they would blur."""


def draw_speedup(page: Page) -> Figure:
    """Bars against the reference at 1.0, with intervals; published figures as marks of another kind."""
    everything = comparisons_of(page)
    references = ", ".join(dict.fromkeys(one.reference for one in everything))
    with_points = sum(len(one.summaries) for one in everything) <= ROWS_WITH_POINTS
    others = [(one, other) for one in everything for other in one.others]
    at_largest = everything[0].at_largest
    published = [mark for one, other in others if (mark := _published(one, other))]
    notes = sorted({other.speedup.note for _, other in others if other.speedup} - {""})
    caption = "; ".join(["Whiskers: 95 % interval", *notes]) + "."
    caption += " Points: single rounds." if with_points else ""
    if any(_best_pytorch(one) for one in everything):
        caption += " Short lines: the fastest PyTorch of the same comparison."
    if not at_largest:
        caption += (
            " Grey band: what the blog of January 2023 claims for ONNX Runtime with ZeRO-1 on 8 A100, 39 % "
            "to 130 % more."
        )
    if published:
        where = "; ".join(dict.fromkeys(map(hardware_of, published)))
        caption += f" Diamonds: published for the same model on other hardware ({where}), not comparable."
    flags = dict.fromkeys(mark.flag for mark in published if mark.flag)
    caption += "".join(f" Flagged: {reference.FLAGS[flag]}." for flag in flags)
    return chart.draw(
        f"Throughput relative to {references}, "
        + ("each backend at its largest batch" if at_largest else "all backends at the same batch"),
        panels_of(page, partial(_speedup_row, with_points=with_points), with_reference=False, relative=True),
        label=f"speed-up over {references} ({TIMES}, higher is better)",
        caption=caption,
        decorate=partial(_baseline, limit=_limit(everything), band=not at_largest),
    )


def _best_pytorch(one: ReportedComparison) -> float | None:
    """The speed-up of the fastest PyTorch row, unless the reference itself is that."""
    return next(
        (other.speedup.ratio for other in one.others if other.is_best_pytorch and other.speedup), None
    )


def _published(one: ReportedComparison, summary: BackendSummary) -> reference.Published | None:
    """The published speed-up of this backend on this model, measured by the same rule of batches."""
    return next((mark for mark in one.published if mark.backend == summary.backend), None)


def _speedup_row(one: ReportedComparison, summary: BackendSummary, *, with_points: bool) -> Row:
    dots = []
    if mark := _published(one, summary):
        dots.append(Dots(kind="published", along=np.array([mark.ratio]), down=np.zeros(1)))
    speedup = summary.speedup
    if summary.status != "ok" or speedup is None:
        reason = summary.status if summary.status != "ok" else summary.message
        return Row(name=summary.backend, absent=reason, dots=dots)
    if with_points:
        points = np.exp(np.concatenate([np.array(logs) for logs in summary.log_ratios.values()]))
        down = np.linspace(-0.3 * chart.BAR, 0.3 * chart.BAR, len(points)).astype(np.float64)
        dots.append(Dots(kind="faint", along=points, down=down))
    whisker = None
    if speedup.low is not None and speedup.high is not None:
        whisker = (speedup.low, min(speedup.high, 1e6))  # an infinite end would not be drawn at all
    best = None if summary.is_best_pytorch else _best_pytorch(one)
    if best is not None:
        dots.append(Dots(kind="best", along=np.array([best]), down=np.zeros(1)))
    return Row(
        name=summary.backend,
        bar=speedup.ratio,
        whisker=whisker,
        dots=dots,
        inside=ratio(speedup.ratio),
        beside=f"{summary.verdict} {interval(speedup)}",
    )


def _limit(comparisons: Sequence[ReportedComparison]) -> float:
    """Right end of the axis: beyond the band, all bars, and all intervals that are not far longer."""
    found = [other.speedup for one in comparisons for other in one.others if other.speedup]
    ratios = [reference.BLOG_BAND[1], *(one.ratio for one in found)]
    ratios += [mark.ratio for one in comparisons for mark in one.published]
    ends = [one.high for one in found if one.high]
    return 1.04 * max(max(ratios), min(max(ends, default=0.0), 1.5 * max(ratios)))


def _baseline(axes: Axes, *, limit: float, band: bool) -> None:
    axes.axvline(1, color=LIGHT.ink, linewidth=1, linestyle=(0, (4, 2)), zorder=4)
    if band:
        axes.axvspan(*reference.BLOG_BAND, color=LIGHT.band, zorder=0, linewidth=0)
    axes.set_xlim(0, limit)
