"""One pair of axes under a title, with a line about workload and machine above and a caption below."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.report.figures import chart, style
from bench.report.figures.style import LIGHT


def titled_axes(
    title: str, subtitle: str, caption: str, *, left: float, right: float, inches: float
) -> tuple[Figure, Axes]:
    """An empty figure and its axes.

    Args:
        title: of the figure; all words are wrapped.
        subtitle: below it.
        caption: at the foot.
        left: inches beside the axes.
        right: likewise.
        inches: that the axes are high.
    """
    figure, bottom = titled_figure(title, subtitle, caption, inches=inches)
    width, height = figure.get_size_inches()
    return figure, figure.add_axes(
        (left / width, bottom / height, (width - left - right) / width, inches / height)
    )


def titled_figure(title: str, subtitle: str, caption: str, *, inches: float) -> tuple[Figure, float]:
    """The same without axes; how many inches from its foot they may begin."""
    title, subtitle = chart.wrapped(title, 66), chart.wrapped(subtitle, 92)
    caption = chart.wrapped(caption, 100)
    top = 0.25 + chart.LINE * (1.25 * (title.count("\n") + 1) + subtitle.count("\n") + 1)
    bottom = 0.62 + chart.LINE * (caption.count("\n") + 1)
    width, height = style.WIDTH_INCHES, top + inches + bottom
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    faint: dict[str, Any] = {"color": LIGHT.faint, "va": "bottom"}
    figure.text(0.1 / width, 1 - 0.1 / height, title, va="top", fontweight="bold", fontsize=10)
    figure.text(0.1 / width, 1 - (top - 0.05) / height, subtitle, fontsize=8.5, **faint)
    figure.text(0.1 / width, 0.08 / height, caption, fontsize=8, **faint)
    return figure, bottom
