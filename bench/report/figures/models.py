"""The chart of many models: for each a bar of every backend, from the reference at 1 to the left or right."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from matplotlib.figure import Figure

from bench.report.figures import chart_words, style
from bench.report.figures.canvas import MARGIN, Canvas, fitted, inches, wrapped
from bench.report.figures.frame import WIDE, draw_axis, draw_axis_label, draw_framed
from bench.report.figures.legend import Swatch
from bench.report.figures.model_chart import ModelBar, ModelChart, ModelLine, ModelPanel, hardware_of
from bench.report.figures.ratio_axis import RatioAxis, limits
from bench.report.figures.style import Theme
from bench.report.formatting import TIMES, one_line
from bench.report.quantities import Ratio

BAR = 0.096
"""Inches of a bar, before scaling: as high as the number beside it."""

BETWEEN = 0.075
"""Inches between two models."""

MOST_TRIALS = 12
"""Times that the axis is made longer so that a status has room behind all marks."""

MOST_LINES = 2
"""Below a model's name; the text alternative has all."""

MOST_FOR_NAMES = 0.36
"""Of the width, for the models' names."""


def draw_models(
    chart: ModelChart, theme: Theme, *, width: float, title: str | None = None, with_caption: bool = True
) -> Figure:
    """Draw the chart.

    Args:
        chart: what to show.
        theme: light or dark.
        width: inches; the height follows from the number of models.
        title: in place of its own; empty for none.
        with_caption: whether the caption stands below it.
    """
    canvas = Canvas(width, theme)
    layout = _Layout(canvas, chart)
    return draw_framed(
        canvas,
        title=chart_words.title(chart) if title is None else title,
        legend=_legend(chart, canvas),
        panels=[(panel.heading, partial(layout.draw_panel, panel)) for panel in chart.panels],
        draw_label=layout.draw_label,
        caption=chart_words.caption(chart) if with_caption else "",
    )


def _legend(chart: ModelChart, canvas: Canvas) -> list[Swatch]:
    theme = canvas.theme
    swatches = [Swatch(words=one_line(name), patch=_look(name, canvas)) for name in chart.backends]
    if any(bar.ratio and bar.ratio.low is not None for line in chart.lines for bar in line.bars):
        swatches.append(Swatch(words="95 % interval", whisker=True))
    if any(line.best for line in chart.lines):
        swatches.append(Swatch(words="best PyTorch", marker={"marker": "|", "color": theme.best, "mew": 2}))
    swatches += [
        Swatch(words=f"published: {source}", marker=_diamond(theme, number))
        for number, source in enumerate(chart.sources)
    ]
    return swatches


def _look(backend: str, canvas: Canvas) -> tuple[str, str]:
    """Colour and hatch, which is dense where bars are short."""
    colour, hatch = style.look(backend)
    return colour, hatch if canvas.width >= WIDE else 2 * hatch


def _diamond(theme: Theme, number: int) -> dict[str, object]:
    """A diamond for each hardware that others measured on."""
    fill = (theme.ground, theme.ink, "#8C8C8C")[number % 3]
    return {"marker": "D" if number < 3 else "s", "mfc": fill, "mec": theme.ink, "mew": 0.7}


@dataclass
class _Layout:
    """Where the columns of a chart are: modality, name, axis, number."""

    canvas: Canvas
    chart: ModelChart
    axis: RatioAxis = field(init=False)

    def __post_init__(self) -> None:
        canvas, chart = self.canvas, self.chart
        self.wide = canvas.width >= WIDE
        names = [width for line in chart.lines for width in self._widths(line)]
        self.names = min(max(names), MOST_FOR_NAMES * canvas.width)
        modalities = [inches(line.modality, canvas.small, "bold") for line in chart.lines]
        self.first = MARGIN + (max(modalities) + 0.12 if self.wide and self._grouped else 0)
        numbers = [inches(self._number(bar.ratio), canvas.small) for line in chart.lines for bar in line.bars]
        left = self.first + self.names + 0.07
        right = canvas.width - MARGIN - max(numbers) - 0.05
        values = [bar.ratio.value for line in chart.lines for bar in line.bars if bar.ratio]
        values += [line.best[1].value for line in chart.lines if line.best]
        values += [mark.ratio for line in chart.lines for mark in line.published]
        found = [bar.ratio for line in chart.lines for bar in line.bars if bar.ratio]
        ends = [end for one in found for end in (one.low, one.high) if end is not None]
        low, high = limits(values, ends)
        self.axis = RatioAxis(low=low, high=high, left=left, right=right)
        self._make_room_for_reasons()

    def _make_room_for_reasons(self) -> None:
        """Extend the axis until every short reason has a place; a long one is cut instead."""
        short = 0.5 * (self.axis.right - self.axis.left)
        rows = [
            (line, bar) for line, bar in self._without_bar() if inches(bar.reason, self.canvas.small) <= short
        ]
        for _ in range(MOST_TRIALS):
            if all(self._free_start(bar.reason, self._taken(line, bar)) for line, bar in rows):
                return
            self.axis = replace(self.axis, high=self.axis.high * 1.05)

    @property
    def _grouped(self) -> bool:
        return len({line.modality for line in self.chart.lines}) > 1

    def _widths(self, line: ModelLine) -> tuple[float, float]:
        return inches(line.name, self.canvas.points), inches(line.detail, self.canvas.small)

    def _number(self, found: Ratio | None) -> str:
        if found is None:
            return ""
        return chart_words.with_interval(found) if self.wide else f"{found.value:.2f}{TIMES}"

    def draw_panel(self, panel: ModelPanel, y: float) -> float:
        """The models of a machine from `y` on, and the ticks below them; where they end."""
        canvas = self.canvas
        top = y
        for number, (modality, lines) in enumerate(groupby(panel.lines, key=lambda line: line.modality)):
            if self._grouped and self.wide:
                if number:
                    canvas.line((MARGIN, y), (self.axis.right, y), lw=0.5, color=canvas.theme.grid, zorder=0)
                down = y + (BETWEEN / 2 + BAR) * canvas.scale
                canvas.text(MARGIN, down, modality, weight="bold", color=canvas.theme.faint)
            elif self._grouped:
                look = {"weight": "bold", "color": canvas.theme.faint, "with_halo": True, "zorder": 4}
                y = canvas.lines(MARGIN, y + 0.02, [modality], points=canvas.small, **look)
            for line in lines:
                y = self._draw_model(line, y)
        self._draw_grid(top, y)
        ticks = {self.axis.place(tick): f"{tick:g}" for tick in self._ticks()}
        return draw_axis(canvas, y, self.axis.left, self.axis.right, ticks)

    def _draw_model(self, line: ModelLine, y: float) -> float:
        canvas = self.canvas
        bar = BAR * canvas.scale
        detail = wrapped(line.detail, canvas.small, self.names)
        if len(detail) > MOST_LINES:
            kept = detail[: MOST_LINES - 1]
            rest = line.detail[len(" ".join(kept)) :].strip()
            detail = [*kept, fitted(rest, canvas.small, self.names)]
        named = canvas.line_inches(canvas.points) + len(detail) * canvas.line_inches(canvas.small)
        high = max(len(line.bars) * bar, named)
        y += BETWEEN / 2 * canvas.scale
        end = self.first + self.names
        name = fitted(line.name, canvas.points, self.names)
        below = canvas.lines(end, y + (high - named) / 2, [name], points=canvas.points, ha="right")
        canvas.lines(end, below, detail, points=canvas.small, ha="right", color=canvas.theme.faint)
        start = y + (high - len(line.bars) * bar) / 2
        middles = [start + (number + 0.5) * bar for number in range(len(line.bars))]
        for one, middle in zip(line.bars, middles, strict=True):
            self._draw_bar(line, one, middle, bar)
        if line.best:
            at = self.axis.place(line.best[1].value)
            ends = (at, start - 0.2 * bar), (at, start + (len(line.bars) + 0.2) * bar)
            width = 1.6 * canvas.scale
            halo = canvas.halo(width + 1.4)
            canvas.line(*ends, color=canvas.theme.best, lw=width, path_effects=halo, zorder=5)
        return y + high + BETWEEN / 2 * canvas.scale

    def _draw_bar(self, line: ModelLine, one: ModelBar, y: float, height: float) -> None:
        canvas, axis = self.canvas, self.axis
        marks = [mark for mark in line.published if mark.backend == one.backend]
        for place, mark in enumerate(marks):
            down = y + (place - (len(marks) - 1) / 2) * 0.4 * height  # equal ones do not hide each other
            look = _diamond(canvas.theme, self.chart.sources.index(hardware_of(mark)))
            canvas.mark(axis.place(mark.ratio), down, markersize=2.9 * canvas.scale, zorder=7, **look)
        if one.ratio is None:
            self._draw_reason(one.reason, self._taken(line, one), y)
            return
        canvas.bar(axis.place(1), axis.place(one.ratio.value), y, height, _look(one.backend, canvas))
        self._draw_whisker(one.ratio, y, height)
        canvas.text(canvas.width - MARGIN, y, self._number(one.ratio), ha="right")

    def _draw_whisker(self, found: Ratio, y: float, height: float) -> None:
        if found.low is None or found.high is None:
            return
        canvas, axis = self.canvas, self.axis
        look = {"lw": 0.8 * canvas.scale, "zorder": 6, "path_effects": canvas.halo(2.0 * canvas.scale)}
        canvas.line((axis.place(found.low), y), (axis.place(found.high), y), **look)
        for end, beyond in ((found.low, "<"), (found.high, ">")):
            at = axis.place(end)
            if axis.clipped(end) == end:
                canvas.line((at, y - 0.28 * height), (at, y + 0.28 * height), **look)
            else:  # it goes on beyond the axis
                canvas.mark(at, y, marker=beyond, markersize=2.6 * canvas.scale, color=canvas.theme.ink)

    def _without_bar(self) -> list[tuple[ModelLine, ModelBar]]:
        return [(line, bar) for line in self.chart.lines for bar in line.bars if bar.ratio is None]

    def _taken(self, line: ModelLine, one: ModelBar) -> list[float]:
        """Where marks are in the row of a backend without a bar: inches, in order, with the line at 1."""
        values = [1.0, *(mark.ratio for mark in line.published if mark.backend == one.backend)]
        values += [line.best[1].value] if line.best else []
        return sorted(map(self.axis.place, values))

    def _free_start(self, words: str, taken: Sequence[float]) -> float | None:
        """Where words begin that cover no mark: behind one, best the line at 1, or else before one."""
        around = 0.05 * self.canvas.scale
        wide = inches(words, self.canvas.small)
        one = self.axis.place(1)
        behind = sorted((at + around for at in taken), key=lambda start: (start < one, start))
        before = sorted((at - around - wide for at in taken), reverse=True)
        for start in (*behind, *before):
            inside = self.axis.left <= start and start + wide <= self.canvas.width - MARGIN
            nothing = all(not start - 0.99 * around < at < start + wide + 0.99 * around for at in taken)
            if inside and nothing:
                return start
        return None

    def _draw_reason(self, reason: str, taken: Sequence[float], y: float) -> None:
        """Why there is no bar, where nothing else is in the row."""
        canvas = self.canvas
        start = self._free_start(reason, taken)
        if start is None:  # too long for any place: what fits behind the last mark
            start = taken[-1] + 0.05 * canvas.scale
        words = fitted(reason, canvas.small, canvas.width - MARGIN - start)
        canvas.text(start, y, words, color=canvas.theme.status, style="italic", zorder=8, with_halo=True)

    def _ticks(self) -> list[float]:
        return self.axis.ticks(inches("0.25", self.canvas.small) * 1.5)

    def _draw_grid(self, top: float, bottom: float) -> None:
        for tick in self._ticks():
            at = self.axis.place(tick)
            if tick == 1:
                self.canvas.line((at, top), (at, bottom), lw=0.9 * self.canvas.scale, zorder=3)
            else:
                look = {"color": self.canvas.theme.grid, "zorder": 0}
                self.canvas.line((at, top), (at, bottom), lw=0.5 * self.canvas.scale, **look)

    def draw_label(self, y: float) -> float:
        """Which way is better, and the axis' label; where they end."""
        canvas, axis, quantity = self.canvas, self.axis, self.chart.quantity
        down = y + canvas.line_inches(canvas.small) / 2
        one = axis.place(1)
        for words, room, at, ha in (
            (f"← {quantity.less}", one - MARGIN, one - 0.06, "right"),
            (f"{quantity.more} →", canvas.width - one, one + 0.06, "left"),
        ):
            if inches(words, canvas.small) + 0.06 <= room:
                canvas.text(at, down, words, ha=ha, weight="bold")
        y += canvas.line_inches(canvas.small)
        label = quantity.axis.format(self.chart.reference)
        return draw_axis_label(canvas, y, (axis.left + axis.right) / 2, label)
