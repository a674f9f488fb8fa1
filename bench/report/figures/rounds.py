"""The figure of single rounds: the raw points behind every speed-up."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.content.collection import ReportedComparison
from bench.report.figures import chart
from bench.report.figures.chart import Dots, Row
from bench.report.figures.pages import Page, comparisons_of, panels_of
from bench.results.arithmetic import step_milliseconds
from bench.results.column_arrays import ColumnArrays
from bench.statistics.summary import BackendSummary

SWING = 0.25
"""A row's height is this share above and below the median; what lies beyond is drawn at its edge."""

TALL = 0.62
"""Inches of a row of points."""


def draw_rounds(page: Page) -> Figure:
    """Every valid block's time per step, in the order of the rounds: the raw points."""
    blocks = max(int((one.rows["backend"] == one.reference).sum()) for one in comparisons_of(page))
    return chart.draw(
        "Step time in every round",
        panels_of(page, _rounds_row, with_reference=True, inches=TALL),
        label="blocks in the order in which they were timed (rounds of all launches)",
        caption=f"Height: seconds per step against the backend's median (to the right), slower is up; a row "
        f"spans ± {SWING:.0%}, triangles lie beyond. Vertical lines: a new launch.",
        decorate=partial(_block_numbers, most=blocks + 1),
    )


def _block_numbers(axes: Axes, *, most: float) -> None:
    axes.set_xlim(0, most)
    axes.grid(visible=False)  # its lines would look like those of the launches


def _rounds_row(one: ReportedComparison, summary: BackendSummary) -> Row:
    blocks = ColumnArrays(one.rows)
    blocks = blocks.where((blocks["backend"] == summary.backend) & (blocks["status"] == "ok"))
    if not len(blocks):
        return Row(name=summary.backend, absent=summary.status)
    order = np.lexsort((blocks["round"], blocks["launch"]))
    launch, ms = blocks["launch"][order], step_milliseconds(blocks["seconds"], blocks["steps"])[order]
    median = float(np.median(ms))
    swing = (ms / median - 1) / SWING
    numbers = np.arange(1.0, len(ms) + 1)
    down = -np.clip(swing, -1, 1) * 0.45 * TALL
    kinds = {"point": abs(swing) <= 1, "above": swing > 1, "below": swing < -1}
    return Row(
        name=summary.backend,
        dots=[
            Dots(kind=kind, along=numbers[chosen], down=down[chosen])
            for kind, chosen in kinds.items()
            if chosen.any()
        ],
        rules=(numbers[1:][launch[1:] != launch[:-1]] - 0.5).tolist(),
        beside=f"{median:,.1f} ms",
    )
