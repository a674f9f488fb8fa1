"""The figure of what was published of ZeRO-1 over DDP, filled, beside what is predicted of it, hollow."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.content.scale import PublishedRatio
from bench.report.figures.canvas import MARGIN, Canvas, fitted, inches
from bench.report.figures.legend import Swatch
from bench.report.figures.scale_sheet import BELOW, WIDTH, beside, framed_sheet, look, themed_axes
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES

ROW = 0.19
"""Inches of a row of the published ratios."""

TITLE_OF_PUBLISHED = "ZeRO-1 over DDP: published and predicted ratio of samples/s"


def draw_published(ratios: Sequence[PublishedRatio], theme: Theme) -> Figure:
    """For each model the published ratio, filled, and the predicted one, hollow, with its interval."""
    canvas = Canvas(WIDTH, theme)
    groups = [
        (setting, list(members)) for setting, members in groupby(_sorted(ratios), lambda one: one.setting)
    ]
    names = min(2.4, max(inches(one.title, canvas.points) for one in ratios) + 0.1)
    numbers = max(inches(_words(one), canvas.small) for one in ratios) + 0.1
    high = ROW * (len(ratios) + 1.2 * len(groups)) + 0.05
    published: dict[str, Any] = {"marker": "D", "mfc": theme.ink, "mec": theme.ink, "mew": 0.8}
    predicted: dict[str, Any] = {"marker": "o", "mfc": theme.ground, "mec": look("zero1")[1], "mew": 1.3}
    figure, top = framed_sheet(
        canvas,
        title=TITLE_OF_PUBLISHED,
        legend=[
            Swatch(words="published", marker=published),
            Swatch(words="predicted", marker=predicted),
            Swatch(words="predicted: 95 % of what follows from the assumptions", whisker=True),
        ],
        high=high + BELOW,
        caption="Samples/s of ZeRO stage 1 over those of DDP; right of the line ZeRO-1 is faster. Numbers: "
        "published, predicted, and how far the prediction is off.",
    )
    left = MARGIN + names
    axes = themed_axes(figure, canvas, left, top, WIDTH - left - numbers - MARGIN, high)
    axes.axvline(1.0, color=theme.ink, linewidth=0.9, zorder=2)
    down = 0.0
    for setting, members in groups:
        down += 1.2 * ROW
        heading = fitted(setting, canvas.small, WIDTH - 2 * MARGIN, "bold")
        edge = -names / (WIDTH - left - numbers - MARGIN)
        ground = {"boxstyle": "square,pad=0.1", "facecolor": theme.ground, "edgecolor": "none"}
        bold: dict[str, Any] = {"fontsize": canvas.small, "fontweight": "bold", "bbox": ground, "zorder": 8}
        beside(axes, edge, down - 0.55 * ROW, heading, color=theme.faint, **bold)
        for one in members:
            place = down + ROW / 2
            name = fitted(one.title, canvas.points, names - 0.1)
            beside(axes, -0.015, place, name, ha="right", color=theme.ink, fontsize=canvas.points)
            beside(axes, 1.02, place, _words(one), color=theme.ink, fontsize=canvas.small)
            _draw_ratio(axes, theme, one, place, published, predicted)
            down += ROW
    axes.set_ylim(high, 0)
    ends = [end for one in ratios for end in (*one.predicted.ends, one.published, 1.0)]
    room = 0.05 * (max(ends) - min(ends)) + 0.01
    axes.set_xlim(min(ends) - room, max(ends) + room)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}{TIMES}")
    axes.set_xlabel("samples/s of ZeRO-1 over those of DDP", fontsize=canvas.small, color=theme.ink)
    axes.grid(axis="x", color=theme.grid, linewidth=0.6)
    return figure


def _sorted(ratios: Sequence[PublishedRatio]) -> list[PublishedRatio]:
    """Those of a setting together, as they first appear, from the largest published ratio down."""
    settings = list(dict.fromkeys(one.setting for one in ratios))
    return sorted(ratios, key=lambda one: (settings.index(one.setting), -one.published))


def _draw_ratio(
    axes: Axes,
    theme: Theme,
    one: PublishedRatio,
    place: float,
    published: dict[str, Any],
    predicted: dict[str, Any],
) -> None:
    above, below = place - 0.13 * ROW, place + 0.13 * ROW  # so that equal ones do not hide each other
    low, high = one.predicted.ends
    if low < high:
        whisker: dict[str, Any] = {"color": theme.ink, "zorder": 4}
        axes.plot([low, high], [below, below], linewidth=0.9, **whisker)
        axes.plot([low, high], [below, below], linestyle="none", marker="|", markersize=4, **whisker)
    axes.plot(one.predicted.value, below, markersize=4.6, zorder=6, gid="predicted", **predicted)
    axes.plot(one.published, above, markersize=3.8, zorder=7, gid="published", **published)


def _words(one: PublishedRatio) -> str:
    error = f"{100 * one.error:+.0f}".replace("-", "\N{MINUS SIGN}") if abs(one.error) >= 0.005 else "0"
    return f"{one.published:.2f}  {one.predicted.value:.2f}  {error} %"


def describe_published(ratios: Sequence[PublishedRatio]) -> str:
    """All that the figure shows, in words."""
    sentences = [
        f"{one.title}, {one.setting}: published {one.published:.3f}, "
        f"predicted {one.predicted.three_decimals()}."
        for one in ratios
    ]
    return " ".join(["Samples/s of ZeRO-1 over those of DDP.", *sentences])
