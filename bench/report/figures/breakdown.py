"""The figure of where time goes: each backend's step as a bar, divided by kind of work."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis.breakdown import Breakdown
from bench.report.breakdown_words import explain, milliseconds
from bench.report.collection import ReportedComparison
from bench.report.figures import chart, style
from bench.report.figures.chart import Dots, Group, Panel, Row
from bench.report.formatting import share

REMAINDER = "not in the profile"


def draw_breakdown(one: ReportedComparison) -> Figure:
    """A bar for each backend, as long as its profiled step, with a mark at its timed step."""
    kinds = {kind for mine in one.breakdowns for kind, _ in _stack(mine)}
    longest = max(max(mine.profiled_s, mine.timed_s or 0) for mine in one.breakdowns)
    sentences = explain(one.breakdowns, one.summaries)
    return chart.draw(
        "Where a step's time goes",
        [
            Panel(
                title=one.panel,
                groups=[
                    Group(
                        heading=f"{one.model}: {one.workload}", rows=[_row(mine) for mine in one.breakdowns]
                    )
                ],
            )
        ],
        label="seconds per step, by kind of work (shorter is better)",
        caption=" ".join([f"{sentence}." for sentence in sentences])
        + " Bars are profiled steps. Diamonds are timed steps, written to the right with profiled over "
        "timed and the share of the profile that has a named kind of work.",
        decorate=partial(_from_zero, most=1.02 * longest),
        legend={kind: look for kind, look in style.KINDS.items() if kind in kinds},
    )


def _row(mine: Breakdown) -> Row:
    cost = "" if mine.cost is None else f" ({mine.cost:.2f}×)"
    return Row(
        name=mine.backend,
        stack=_stack(mine),
        dots=[]
        if mine.timed_s is None
        else [Dots(kind="published", along=np.array([mine.timed_s]), down=np.zeros(1))],
        beside=f"{milliseconds(mine.timed_s)}{cost}, {share(mine.covered)}",
    )


def _stack(mine: Breakdown) -> list[tuple[str, float]]:
    """The kinds of work, and what the timed step took beyond the profiled one."""
    parts = [(kind, mine.kinds[kind]) for kind in style.KINDS if kind in mine.kinds]
    beyond = 0.0 if mine.timed_s is None else mine.timed_s - mine.profiled_s
    return parts + [(REMAINDER, beyond)] * (beyond > 0)


def _from_zero(axes: Axes, *, most: float) -> None:
    axes.set_xlim(0, most)
