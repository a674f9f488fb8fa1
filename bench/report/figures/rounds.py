"""The figure of single rounds: the raw points behind every speed-up."""

import numpy as np
from matplotlib.figure import Figure

from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.pages import Page, comparisons_of, row_panels
from bench.report.figures.row_chart import draw_rows
from bench.report.figures.rows import Axis, Marks, Row, RowChart
from bench.report.figures.style import Theme
from bench.results.arithmetic import step_milliseconds
from bench.results.column_arrays import ColumnArrays
from bench.statistics.summary import BackendSummary

SWING = 0.25
"""A row's height is this share above and below the median; what lies beyond is drawn at its edge."""


def draw_rounds(page: Page, theme: Theme) -> Figure:
    """Every valid block's time per step, in the order of the rounds: the raw points."""
    blocks = max(
        int((comparison.rows["backend"] == comparison.reference).sum()) for comparison in comparisons_of(page)
    )
    chart = RowChart(
        title="Step time in every round",
        panels=row_panels(page, _rounds_row),
        axis=Axis(low=0, high=blocks + 1),
        label="blocks in the order in which they were timed (rounds of all launches)",
        caption="Height: seconds per step against the backend's median (to the right), slower is up; a row "
        f"spans ± {SWING:.0%}, triangles lie beyond. Vertical lines: a new launch.",
        with_grid=False,  # its lines would look like those of the launches
        row=0.5,
    )
    return draw_rows(chart, theme)


def _rounds_row(one: ReportedComparison, summary: BackendSummary) -> Row:
    blocks = ColumnArrays(one.rows)
    blocks = blocks.where((blocks["backend"] == summary.backend) & (blocks["status"] == "ok"))
    if not len(blocks):
        return Row(name=summary.backend, reason=summary.status)
    order = np.lexsort((blocks["round"], blocks["launch"]))
    launch, ms = blocks["launch"][order], step_milliseconds(blocks["seconds"], blocks["steps"])[order]
    median = float(np.median(ms))
    swing = (ms / median - 1) / SWING
    numbers = np.arange(1.0, len(ms) + 1)
    down = -np.clip(swing, -1, 1) * 0.45
    colour, _ = style.look(summary.backend)
    look = {"markersize": 2.8, "color": colour, "mec": style.EDGE, "mew": 0.3, "zorder": 3}
    kinds = {"o": abs(swing) <= 1, "^": swing > 1, "v": swing < -1}
    return Row(
        name=summary.backend,
        marks=[
            Marks(values=numbers[chosen], down=down[chosen], mark={"marker": marker, **look})
            for marker, chosen in kinds.items()
            if chosen.any()
        ],
        rules=(numbers[1:][launch[1:] != launch[:-1]] - 0.5).tolist(),
        beside=f"{median:,.1f} ms",
    )
