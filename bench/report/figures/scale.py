"""The figures of what is predicted for many GPUs: dashed and hollow, so that nobody takes it for measured."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.content.scale import (
    CHECKS_FIGURE,
    KINDS_OF_SCALING,
    PUBLISHED_FIGURE,
    Predictions,
    ScaleLine,
    Scaling,
)
from bench.report.figures.measured_text import inches
from bench.report.figures.picture_files import write_figure
from bench.report.figures.scale_checks import TITLE_OF_CHECKS, describe_checks, draw_checks
from bench.report.figures.scale_published import TITLE_OF_PUBLISHED, describe_published, draw_published
from bench.report.figures.sharding_marks import crossed, hollow, look
from bench.report.figures.sheet import MARGIN, REPORT_WIDTH, Sheet, Swatch, set_ticks
from bench.report.figures.style import Theme

LEFT, HIGH, BELOW = 0.52, 2.7, 0.42
"""Inches beside axes, of axes, and below them."""

ABOVE = 0.36
"""Inches above the axes, for their title and the node's."""

BETWEEN = 0.22
"""Inches between two axes."""


def write_scale_figures(predictions: Predictions, folder: Path) -> list[Path]:
    """Draw the figures of these predictions as SVG, in the order of the page; their paths."""
    paths: list[Path] = []

    def write(stem: str, title: str, description: str, draw: Callable[[Theme], Figure]) -> None:
        paths.append(folder / f"{stem}.svg")
        write_figure(paths[-1], draw, title=title, description=description)

    for scaling in predictions.scalings:
        words = _title_of_scaling(scaling), _describe_scaling(scaling)
        write(scaling.figure, *words, partial(draw_scaling, scaling))
    if checks := predictions.accuracies:
        write(CHECKS_FIGURE, TITLE_OF_CHECKS, describe_checks(checks), partial(draw_checks, checks))
    if ratios := predictions.published:
        described = describe_published(ratios)
        write(PUBLISHED_FIGURE, TITLE_OF_PUBLISHED, described, partial(draw_published, ratios))
    return paths


def draw_scaling(scaling: Scaling, theme: Theme) -> Figure:
    """Predicted efficiency against ranks: a dashed line with its band for each sharding."""
    sheet = Sheet(REPORT_WIDTH, theme)
    lines = [line for members in scaling.lines.values() for line in members]
    points = [point for line in lines for point in line.points]
    names = {line.name: line.sharding for line in lines}
    legend = [Swatch(words=name, mark=hollow(sharding) | {"mew": 0.7}) for name, sharding in names.items()]
    if not all(point.fits for point in points):
        legend.append(Swatch(words="does not fit in memory", mark=crossed(theme)))
    sheet.title(_title_of_scaling(scaling))
    sheet.legend(legend)
    count = len(scaling.lines)
    wide = (sheet.width - LEFT - 3 * MARGIN - (count - 1) * BETWEEN) / count
    most = 1.04 * max([1.0, *(point.efficiency.ends[1] for point in points)])
    for number, (kind, members) in enumerate(scaling.lines.items()):
        left = LEFT + MARGIN + number * (wide + BETWEEN)
        label = "" if number else "predicted efficiency"
        axes = sheet.axes(left, wide, HIGH, down=ABOVE, xlabel="ranks", ylabel=label)
        axes.set_title(
            f"{kind} scaling, predicted", fontsize=sheet.small, loc="left", color=theme.ink, pad=14
        )
        axes.tick_params(labelleft=not number)
        _draw_efficiencies(axes, sheet, kind, members, scaling.topology.ranks_per_node, most, wide)
    sheet.y += ABOVE + HIGH + BELOW
    sheet.caption(
        f"Predicted, not measured: {scaling.model}, {scaling.workload}. Samples/s of a rank as a share of "
        "those of a rank alone; shaded: 95 % of what follows from the assumptions."
    )
    return sheet.finish()


def _draw_efficiencies(
    axes: Axes, sheet: Sheet, kind: str, lines: Sequence[ScaleLine], per_node: int, most: float, wide: float
) -> None:
    theme = sheet.theme
    sizes = sorted({point.ranks for line in lines for point in line.points})
    margin = max(1.15, (sizes[-1] / sizes[0]) ** 0.05)
    axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] / margin, sizes[-1] * margin)
    axes.set_ylim(0, most)
    if sizes[0] < per_node < sizes[-1]:
        axes.axvline(per_node, color=theme.faint, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
        look_of_node: dict[str, Any] = {"fontsize": sheet.small, "va": "bottom", "ha": "center"}
        axes.text(per_node, 1.01 * most, "1 node", color=theme.faint, **look_of_node)
    for number, line in enumerate(lines):
        _draw_line(axes, theme, kind, line, number)
    set_ticks(axes.xaxis, _powers(sizes, wide, sheet), lambda value: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.grid(axis="y", color=theme.grid, linewidth=0.6)


def _draw_line(axes: Axes, theme: Theme, kind: str, line: ScaleLine, number: int) -> None:
    sharding, ranks = look(line.sharding), [point.ranks for point in line.points]
    values = [point.efficiency.value for point in line.points]
    low, high = zip(*(point.efficiency.ends for point in line.points), strict=True)
    name = f"{line.name}-{kind}".replace(" ", "_")
    faint: dict[str, Any] = {"color": sharding.colour, "linewidth": 0}
    axes.fill_between(ranks, low, high, alpha=0.12, zorder=2, gid=f"band-{name}", **faint)
    for end in (low, high):
        axes.plot(
            ranks, end, color=sharding.colour, alpha=0.6, linewidth=0.5, linestyle=(0, (1, 1)), zorder=3
        )
    dashed: dict[str, Any] = {"linestyle": (0.9 * number, sharding.dashes), "dash_capstyle": "butt"}
    order: dict[str, Any] = {"zorder": 4 + number, "gid": f"line-{name}"}
    axes.plot(ranks, values, color=sharding.colour, linewidth=1.3, **dashed, **order)
    at: dict[str, Any] = {"linestyle": "none", "clip_on": False}
    axes.plot(ranks, values, zorder=20 + number, gid=f"points-{name}", **at, **hollow(line.sharding))
    outside = [(point.ranks, point.efficiency.value) for point in line.points if not point.fits]
    if outside:
        xs, ys = zip(*outside, strict=True)
        axes.plot(xs, ys, zorder=40, gid=f"does-not-fit-{name}", **at, **crossed(theme))


def _powers(sizes: Sequence[int], wide: float, sheet: Sheet) -> list[float]:
    """Powers of two from the first to the last, as many as have room for their words."""
    first, last = math.ceil(math.log2(sizes[0])), math.floor(math.log2(sizes[-1]))
    room = wide / max(1.0, math.log2(sizes[-1] / sizes[0]))
    step = math.ceil((inches(f"{sizes[-1]:,}", sheet.small) + 0.06) / room)
    return [2.0**power for power in range(first, last + 1, step)] or [float(size) for size in sizes]


def _title_of_scaling(scaling: Scaling) -> str:
    return f"{scaling.title} on {scaling.topology.title}: predicted efficiency on many ranks"


def _describe_scaling(scaling: Scaling) -> str:
    sentences = ["Predicted, not measured: samples/s of a rank as a share of those of a rank alone."]
    for kind, members in scaling.lines.items():
        for line in members:
            points = ", ".join(
                f"{point.ranks:,}: {point.efficiency.per_cent()}"
                + ("" if point.fits else " (does not fit in memory)")
                for point in line.points
            )
            sentences.append(
                f"{kind.capitalize()} scaling ({KINDS_OF_SCALING[kind]}), {line.name}, by ranks: {points}."
            )
    return " ".join(sentences)
