"""The figure of where the time of steps goes: a bar for each backend, divided by kind of work."""

from collections.abc import Mapping
from functools import partial

from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.comparisons import Page, comparisons_of, row_panels
from bench.report.figures.rows import Marks, Row, RowChart, stacked
from bench.report.figures.style import Look, bar_entry, mark_entry
from bench.report.words.formatting import TIMES
from bench.statistics.summary import BackendSummary
from bench.studies.explain.breakdown import Breakdown, break_down
from bench.studies.explain.section import milliseconds

NAME, CAPTION = "breakdown", "Where a step's time goes"

REMAINDER = "not in the profile"  # what a timed step takes beyond the profiled one
TOO_FAR = "profile too far from the timed step"  # why a step has no bar

EXPLAINED = (
    "Bars: profiled steps by kind of work, over the timed step of the reference. Diamonds: timed steps, with "
    "their milliseconds; a bar that ends behind one was slowed by profiling. What a timed step takes beyond "
    f"the profiled one is {REMAINDER}."
)


LOOKS = {
    "matrix products": ("#0072B2", ""),
    "softmax": ("#CC79A7", "|||"),
    "normalisation": ("#009E73", ""),
    "elementwise": ("#F0E442", "///"),
    "embedding": ("#CC79A7", ""),
    "loss": ("#D55E00", "xxx"),
    "dropout": ("#009E73", "+++"),
    "copies": ("#56B4E9", "\\\\\\"),
    "optimizer": ("#E69F00", "|||"),
    "communication": ("#999999", "---"),
    "host": ("#7A4F2B", ""),
    "other": ("#C9C9C9", "////"),
    REMAINDER: (style.GROUND, ""),
}
"""Colours and hatches of the kinds of work, from the foot of the bar."""


DIAMOND = {"marker": "D", "mfc": style.GROUND, "mec": style.INK, "mew": 0.7, "markersize": 2.9}


def can_show(comparison: ReportedComparison) -> bool:
    """Whether the reference was timed, and its time is divided."""
    steps = break_down(comparison)
    return any(step.backend == comparison.reference and step.timed_s for step in steps)


def make_chart(page: Page) -> RowChart:
    """Where the time of steps goes, of comparisons that can be shown."""
    found = {id(one): {step.backend: step for step in break_down(one)} for one in comparisons_of(page)}
    panels = row_panels(page, partial(_make_row, found))
    rows = [row for groups in panels.values() for group in groups for row in group.rows]
    bars = [bar for row in rows for bar in row.bars]
    timed = [float(value) for row in rows for marks in row.marks for value in marks.values]
    used = {bar.look for bar in bars}
    kinds = [bar_entry(kind, look) for kind, look in LOOKS.items() if look in used]
    return RowChart(
        title=CAPTION,
        panels=panels,
        limits=(0, 1.03 * max([bar.end for bar in bars] + timed)),
        label=f"step over the reference's timed step ({TIMES}, shorter is faster)",
        caption=EXPLAINED,
        legend=[*kinds, mark_entry("timed step", DIAMOND)],
        row=0.14,
        bar=0.11,
    )


def _make_row(
    found: Mapping[int, Mapping[str, Breakdown]],
    comparison: ReportedComparison,
    summary: BackendSummary,
    _: Look,
) -> Row:
    steps = found[id(comparison)]
    step = steps.get(summary.backend)
    if step is None:
        return Row(name=summary.backend, reason="not profiled" if summary.status == "ok" else summary.status)
    base = steps[comparison.reference].timed_s or 1.0
    parts = {} if step.is_distorted else step.kinds
    if parts and step.timed_s is not None and step.timed_s > step.profiled_s:
        parts |= {REMAINDER: step.timed_s - step.profiled_s}
    return Row(
        name=summary.backend,
        bars=stacked({kind: seconds / base for kind, seconds in parts.items()}, LOOKS),
        marks=[] if step.timed_s is None else [Marks(values=[step.timed_s / base], mark=DIAMOND)],
        beside=milliseconds(step.timed_s),
        reason="" if parts else TOO_FAR,
    )
