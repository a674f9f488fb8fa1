"""The figure of what each backend takes to begin and to train: time, memory, room on disk, and its speed."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis.beginning import Beginning
from bench.report.content.collection import ReportedComparison
from bench.report.figures import style
from bench.report.figures.titled import titled_figure
from bench.report.words.formatting import number

ROW = 0.24
"""Inches from one bar to the next."""

BETWEEN = 0.62
"""Inches between two rows of axes, for a title above and numbers below."""

NAMES = 1.35
"""Inches left of the first axes, for the names of the backends."""

Figures = dict[str, Callable[[Beginning], float | None]]

SIZES: Figures = {
    "seconds until the first step is done": lambda one: one.first_step_s,
    "peak memory of a rank (MiB)": lambda one: one.peak,
    "packages and files on disk (MiB)": lambda one: one.installed + (one.loaded or 0.0),
}


def draw_beginning(one: ReportedComparison) -> Figure:
    """Four small charts with a bar for each backend."""
    beginnings = one.beginnings
    speed = {summary.backend: summary.samples_per_s for summary in one.summaries}
    charts: Figures = {"samples/s (more is better)": lambda mine: speed.get(mine.backend), **SIZES}
    title = f"{one.model}: what each backend takes to begin and to train"
    high = ROW * len(beginnings)
    figure, bottom = titled_figure(
        title,
        f"{one.workload}; {one.hardware}",
        "Set-up and first step without the start of Python, and without what is made beforehand for a "
        "device. Packages are all of which the process uses something. Less is better, but for samples/s.",
        inches=2 * (high + BETWEEN) - 0.35,
    )
    width, height = figure.get_size_inches()
    each = (width - NAMES - 0.75) / 2
    for place, (label, value) in enumerate(charts.items()):
        column, row = place % 2, place // 2
        left = NAMES + column * (each + 0.35)
        low = bottom + (1 - row) * (high + BETWEEN)
        axes = figure.add_axes((left / width, low / height, (each - 0.2) / width, high / height))
        _draw_bars(axes, beginnings, value, label, named=column == 0)
    return figure


def _draw_bars(
    axes: Axes,
    beginnings: Sequence[Beginning],
    value: Callable[[Beginning], float | None],
    label: str,
    *,
    named: bool,
) -> None:
    values = [value(one) for one in beginnings]
    most = max([one for one in values if one is not None], default=1.0)
    for place, (one, known) in enumerate(zip(beginnings, values, strict=True)):
        colour, hatch = style.look(one.backend)
        axes.barh(
            place, known or 0.0, height=0.7, color=colour, hatch=hatch, edgecolor=style.EDGE, linewidth=0.5
        )
        words = "unknown" if known is None else number(known)
        axes.text((known or 0.0) + 0.02 * most, place, words, va="center", fontsize=8)
    axes.set_ylim(len(beginnings) - 0.5, -0.5)
    axes.set_xlim(0, 1.25 * most)
    axes.set_yticks(range(len(beginnings)), [one.backend for one in beginnings] if named else [])
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_title(label, fontsize=8.5, loc="left")
