"""The chart of where the time of many models goes: for each a stack of every backend's step."""

from dataclasses import dataclass, field
from functools import partial

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bench.report.breakdown_words import milliseconds
from bench.report.figures import breakdown_chart, style
from bench.report.figures.breakdown_chart import BreakdownChart, StepBar
from bench.report.figures.canvas import MARGIN, Canvas, fitted, inches, wrapped
from bench.report.figures.frame import draw_axis, draw_axis_label, draw_framed
from bench.report.figures.legend import Swatch
from bench.report.figures.model_chart import ModelLine, ModelPanel
from bench.report.figures.style import Theme
from bench.report.formatting import one_line

ROW = 0.115
"""Inches from one backend to the next, before scaling."""

BAR = 0.092

BETWEEN = 0.07
"""Inches between two models."""

MOST_FOR_NAMES = 0.34
"""Of the width, for the backends' names."""


def draw_models_breakdown(
    chart: BreakdownChart, theme: Theme, *, width: float, title: str | None = None, with_caption: bool = True
) -> Figure:
    """Draw the chart; the arguments are those of `draw_models`."""
    canvas = Canvas(width, theme)
    layout = _Layout(canvas, chart)
    kinds = [kind for kind in style.KINDS if kind in chart.kinds]
    return draw_framed(
        canvas,
        title=breakdown_chart.title(chart) if title is None else title,
        legend=[
            *(Swatch(words=kind, patch=style.KINDS[kind]) for kind in kinds),
            Swatch(words="timed step", marker=_timed(theme)),
        ],
        panels=[(panel.heading, partial(layout.draw_panel, panel)) for panel in chart.models.panels],
        draw_label=layout.draw_label,
        caption=breakdown_chart.caption(chart) if with_caption else "",
    )


def _timed(theme: Theme) -> dict[str, object]:
    return {"marker": "D", "mfc": theme.ground, "mec": theme.ink, "mew": 0.7}


@dataclass
class _Layout:
    """Where names, bars and numbers are."""

    canvas: Canvas
    chart: BreakdownChart
    left: float = field(init=False)
    right: float = field(init=False)
    most: float = field(init=False)

    def __post_init__(self) -> None:
        canvas = self.canvas
        bars = [bar for line in self.chart.models.lines for bar in self.chart.bars(line)]
        names = max(inches(one_line(bar.backend), canvas.small) for bar in bars)
        self.left = MARGIN + min(names, MOST_FOR_NAMES * canvas.width) + 0.06
        numbers = max(inches(milliseconds(bar.timed_s), canvas.small) for bar in bars)
        self.right = canvas.width - MARGIN - numbers - 0.06
        longest = max(max(sum(bar.parts.values()), bar.timed or 0.0) for bar in bars)
        self.most = 1.03 * longest

    def _place(self, value: float) -> float:
        return self.left + value / self.most * (self.right - self.left)

    def draw_panel(self, panel: ModelPanel, y: float) -> float:
        """The models of a machine from `y` on, and the ticks below them; where they end."""
        canvas = self.canvas
        top = y
        for line in panel.lines:
            y = self._draw_model(line, y)
        locator = MaxNLocator(5 if canvas.width < 5 else 9, steps=[1, 2, 2.5, 5, 10])
        ticks = [float(tick) for tick in locator.tick_values(0, self.most) if 0 <= tick <= self.most]
        for tick in ticks:
            at = self._place(tick)
            canvas.line((at, top), (at, y), lw=0.5 * canvas.scale, color=canvas.theme.grid, zorder=0)
        places = {self._place(tick): f"{tick:g}" for tick in ticks}
        return draw_axis(canvas, y, self.left, self.right, places)

    def _draw_model(self, line: ModelLine, y: float) -> float:
        canvas = self.canvas
        y += BETWEEN / 2 * canvas.scale
        heading = wrapped(line.label, canvas.points, canvas.width - 2 * MARGIN, "bold")
        look = {"weight": "bold", "with_halo": True, "zorder": 3}
        y = canvas.lines(MARGIN, y, heading, points=canvas.points, **look) + 0.02 * canvas.scale
        for bar in self.chart.bars(line):
            self._draw_bar(bar, y + ROW * canvas.scale / 2)
            y += ROW * canvas.scale
        return y + BETWEEN / 2 * canvas.scale

    def _draw_bar(self, bar: StepBar, y: float) -> None:
        canvas = self.canvas
        name = fitted(bar.backend, canvas.small, self.left - 0.05 - MARGIN)  # the longest just fits
        canvas.text(self.left - 0.06, y, name, ha="right")
        start = 0.0
        for kind in style.KINDS:
            if kind in bar.parts:
                end = start + bar.parts[kind]
                canvas.bar(self._place(start), self._place(end), y, BAR * canvas.scale, style.KINDS[kind])
                start = end
        if bar.timed is not None:
            canvas.mark(
                self._place(bar.timed), y, markersize=2.6 * canvas.scale, zorder=4, **_timed(canvas.theme)
            )
        canvas.text(canvas.width - MARGIN, y, milliseconds(bar.timed_s), ha="right")

    def draw_label(self, y: float) -> float:
        """The axis' label; where it ends."""
        words = f"step over {self.chart.models.reference}'s timed step (×, shorter is faster)"
        return draw_axis_label(self.canvas, y, (self.left + self.right) / 2, words)
