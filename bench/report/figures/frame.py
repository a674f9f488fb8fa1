"""What charts of many models have in common: title, legend, panels under their headings, and a caption."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from bench.report.figures.canvas import MARGIN, Canvas, wrapped
from bench.report.figures.legend import Swatch, draw_legend

WIDE = 5.5
"""Inches from which on there is room for more than in a column of a paper."""


def draw_framed(
    canvas: Canvas,
    *,
    title: str,
    legend: Sequence[Swatch],
    panels: Sequence[tuple[str, Callable[[float], float]]],
    draw_label: Callable[[float], float],
    caption: str,
) -> Figure:
    """Draw everything from top to bottom.

    Args:
        canvas: an empty one.
        title: may be empty.
        legend: its entries.
        panels: the heading of each, and what draws it from a height on and returns where it ends. A heading
            is shown only if there are several.
        draw_label: likewise what stands below the last panel.
        caption: may be empty.
    """
    room, faint = canvas.width - 2 * MARGIN, canvas.theme.faint
    bold = canvas.points + 1
    y = canvas.lines(MARGIN, MARGIN, wrapped(title, bold, room, "bold"), points=bold, weight="bold")
    y = draw_legend(canvas, y + 0.04, legend)
    for heading, draw_panel in panels:
        if len(panels) > 1:
            lines = wrapped(heading, canvas.small, room)
            y = canvas.lines(MARGIN, y + 0.07, lines, points=canvas.small, color=faint)
        y = draw_panel(y + 0.03)
    y = draw_label(y)
    if caption:
        lines = wrapped(caption, canvas.small, room)
        y = canvas.lines(MARGIN, y + 0.05, lines, points=canvas.small, color=faint)
    return canvas.finish(y + MARGIN + 0.02)
