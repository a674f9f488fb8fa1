"""What charts of many models have in common: title, legend, panels under their headings, and a caption."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from bench.report.figures.canvas import MARGIN, Canvas, inches, wrapped
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


def draw_axis(canvas: Canvas, y: float, left: float, right: float, ticks: Mapping[float, str]) -> float:
    """A line from left to right, and below it the words of ticks at their places; where they end."""
    canvas.line((left, y), (right, y), lw=0.6 * canvas.scale, color=canvas.theme.faint)
    down = y + 0.02 + canvas.line_inches(canvas.small) / 2
    for at, words in ticks.items():
        canvas.text(at, down, words, ha="center")
    return y + 0.02 + canvas.line_inches(canvas.small)


def draw_axis_label(canvas: Canvas, y: float, middle: float, words: str) -> float:
    """The label of an axis below its middle, as far as the sheet has room there; where it ends."""
    lines = wrapped(words, canvas.small, canvas.width - 2 * MARGIN)
    wide = max(inches(line, canvas.small) for line in lines)
    middle = min(max(middle, MARGIN + wide / 2), canvas.width - MARGIN - wide / 2)
    return canvas.lines(middle, y, lines, points=canvas.small, ha="center")
