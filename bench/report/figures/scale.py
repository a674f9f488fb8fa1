"""The figures about many GPUs: predictions are hollow or dashed, so that nobody takes them for measured."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from bench.report.content.kinds import name_sharding, place_of_sharding
from bench.report.content.scale import (
    CHECKS_FIGURE,
    PUBLISHED_FIGURE,
    Accuracy,
    CheckedPoint,
    Predictions,
    PublishedRatio,
    ScalePoint,
    Scaling,
)
from bench.report.figures.picture_files import write_figure
from bench.report.figures.rows import Marks, Row, RowChart, RowGroup, draw_rows
from bench.report.figures.sheet import MARGIN, REPORT_WIDTH, Sheet, interval_entry, mark_entry
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES

LEFT, HIGH, ABOVE, BELOW, BETWEEN = 0.52, 2.7, 0.36, 0.42, 0.22
"""Inches beside the first axes, of axes, above them for titles, below and between them."""

# Marker, its size in points, colour of Okabe and Ito's palette, dashes and gaps. Sizes differ so that hollow
# ones at the same place are all seen; lines are told apart without colour, and none is solid.
_LOOKS: dict[str, tuple[str, float, str, tuple[float, ...]]] = {
    "ddp": ("o", 5.6, "#0072B2", (6.0, 2.0)),
    "zero_redundancy": ("s", 6.8, "#56B4E9", (1.2, 1.4)),
    "zero1": ("^", 5.2, "#D55E00", (3.2, 1.6)),
    "zero1_native": ("v", 5.2, "#CC79A7", (1.2, 2.6)),
    "zero2": ("D", 4.4, "#E69F00", (6.0, 1.6, 1.2, 1.6)),
    "zero3": ("P", 5.8, "#009E73", (3.0, 1.4, 1.0, 1.4, 1.0, 1.4)),
    "fsdp2": ("h", 7.4, "#8C8C8C", (9.0, 3.0)),
}
_OTHER = ("d", 5.0, "#999999", (2.0, 2.0))


def write_scale_figures(predictions: Predictions, folder: Path) -> list[Path]:
    """Draw the figures of these predictions as SVG, in the order of the page; their paths."""
    drawings: dict[str, Callable[[Theme], Figure]] = {
        scaling.figure: partial(draw_scaling, scaling) for scaling in predictions.scalings
    }
    if checks := predictions.accuracies:
        drawings[CHECKS_FIGURE] = partial(draw_checks, checks)
    if ratios := predictions.published:
        drawings[PUBLISHED_FIGURE] = partial(draw_published, ratios)
    for stem, draw in drawings.items():
        write_figure(folder / f"{stem}.svg", draw)
    return [folder / f"{stem}.svg" for stem in drawings]


def _marker(sharding: str) -> dict[str, Any]:
    """A sharding's marker, hollow."""
    marker, size, colour, _ = _LOOKS.get(sharding, _OTHER)
    return {"marker": marker, "mfc": "none", "mec": colour, "mew": 1.0, "markersize": size}


# Efficiency


def draw_scaling(scaling: Scaling, theme: Theme) -> Figure:
    """Predicted efficiency against ranks: a dashed line with its band for each sharding."""
    sheet = Sheet(REPORT_WIDTH, theme)
    points = [point for lines in scaling.lines.values() for line in lines.values() for point in line]
    shardings = dict.fromkeys(point.sharding for point in points)
    legend = [mark_entry(name_sharding(sharding), _marker(sharding)) for sharding in shardings]
    if not all(point.fits for point in points):
        legend.append(mark_entry("does not fit in memory", _crossed(theme)))
    sheet.title(f"{scaling.title} on {scaling.topology.title}: predicted efficiency on many ranks")
    sheet.legend(legend)
    wide = (sheet.room - LEFT - MARGIN - (len(scaling.lines) - 1) * BETWEEN) / len(scaling.lines)
    most = 1.04 * max([1.0, *(point.efficiency.ends[1] for point in points)])
    for number, (kind, lines) in enumerate(scaling.lines.items()):
        left = LEFT + MARGIN + number * (wide + BETWEEN)
        label = "" if number else "predicted efficiency"
        axes = sheet.axes(left, sheet.y + ABOVE, wide, HIGH, xlabel="ranks", ylabel=label, ylim=(0, most))
        axes.set_title(f"{kind} scaling, predicted", fontsize=6.5, loc="left", color=theme.ink, pad=14)
        axes.tick_params(labelleft=not number)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.grid(axis="y", color=theme.grid, linewidth=0.6)
        sizes = sorted({point.ranks for line in lines.values() for point in line})
        _scale_ranks(axes, sizes, scaling.topology.ranks_per_node, theme)
        for order, (sharding, line) in enumerate(lines.items()):
            _draw_line(axes, theme, kind, sharding, line, order)
    sheet.y += ABOVE + HIGH + BELOW
    sheet.caption(
        f"Predicted, not measured: {scaling.model}, {scaling.workload}. Samples/s of a rank as a share of "
        "those of a rank alone; shaded: 95 % of what follows from the assumptions."
    )
    return sheet.finish()


def _crossed(theme: Theme) -> dict[str, Any]:
    return {"marker": "x", "mec": theme.ink, "mew": 0.8, "markersize": 3.8}


def _scale_ranks(axes: Axes, sizes: Sequence[int], per_node: int, theme: Theme) -> None:
    """Powers of two on the axis, and where the node ends."""
    margin = max(1.15, (sizes[-1] / sizes[0]) ** 0.05)
    axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] / margin, sizes[-1] * margin)
    powers = LogLocator(base=2, numticks=7).tick_values(sizes[0], sizes[-1])
    inside = [power for power in powers if sizes[0] <= power <= sizes[-1]]
    axes.xaxis.set_major_locator(FixedLocator(inside or sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if sizes[0] < per_node < sizes[-1]:
        axes.axvline(per_node, color=theme.faint, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
        at: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "va": "bottom", "ha": "center"}
        axes.text(per_node, 1.01, "1 node", color=theme.faint, **at)


def _draw_line(
    axes: Axes, theme: Theme, kind: str, sharding: str, points: Sequence[ScalePoint], order: int
) -> None:
    ranks, values = zip(*((point.ranks, point.efficiency.value) for point in points), strict=True)
    low, high = zip(*(point.efficiency.ends for point in points), strict=True)
    *_, colour, dashes = _LOOKS.get(sharding, _OTHER)
    name = f"{name_sharding(sharding)}-{kind}".replace(" ", "_")
    axes.fill_between(ranks, low, high, color=colour, alpha=0.12, linewidth=0, gid=f"band-{name}")
    dashed: dict[str, Any] = {"linestyle": (0.9 * order, dashes), "dash_capstyle": "butt"}
    axes.plot(ranks, values, color=colour, linewidth=1.3, zorder=4 + order, gid=f"line-{name}", **dashed)
    at: dict[str, Any] = {"linestyle": "none", "clip_on": False}
    axes.plot(ranks, values, zorder=20 + order, gid=f"points-{name}", **at, **_marker(sharding))
    if outside := [(point.ranks, point.efficiency.value) for point in points if not point.fits]:
        xs, ys = zip(*outside, strict=True)
        axes.plot(xs, ys, zorder=40, gid=f"does-not-fit-{name}", **at, **_crossed(theme))


# Predicted over measured


def draw_checks(accuracies: Sequence[Accuracy], theme: Theme) -> Figure:
    """How far off each prediction is: a group for each quantity, with the band of its rule."""
    checks = [check for accuracy in accuracies for check in accuracy.checks if check.measured.value]
    ends = [0.95, 1.05, *(end for check in checks for end in (*_ends_of_check(check), check.error + 1))]
    groups = [
        RowGroup(
            heading=f"{accuracy.quantity}: {accuracy.within} of {len(accuracy.checks)} {accuracy.rule}",
            rows=[_checks_row(members) for members in _by_sharding(accuracy.checks)],
            band=(1 - accuracy.allowed, 1 + accuracy.allowed) if accuracy.allowed else None,
        )
        for accuracy in accuracies
    ]
    chart = RowChart(
        title="Predicted over measured: what a rank sends, holds and takes",
        panels={"": groups},
        limits=(min(ends) - 0.02, max(ends) + 0.02),
        label="predicted over measured",
        unit=TIMES,
        caption="Each mark is a setting that was predicted and measured; to the right how many there are. "
        "Grey band: how far a prediction may be off.",
        legend=[interval_entry(theme)],
        line=1,
    )
    return draw_rows(chart, theme)


def _by_sharding(checks: Iterable[CheckedPoint]) -> list[list[CheckedPoint]]:
    ordered = sorted(checks, key=lambda check: (place_of_sharding(check.sharding), check.sharding))
    return [list(members) for _, members in groupby(ordered, key=lambda check: check.sharding)]


def _ends_of_check(check: CheckedPoint) -> tuple[float, float]:
    """The interval of predicted over measured, given both intervals."""
    measured, predicted = check.measured, check.predicted
    return predicted.low / measured.high, predicted.high / max(measured.low, 1e-9 * measured.high)


def _checks_row(checks: Sequence[CheckedPoint]) -> Row:
    sharding, look = checks[0].sharding, _marker(checks[0].sharding)
    comparable = [check for check in checks if check.measured.value]  # else there is nothing to divide by
    marks = Marks(
        values=[check.predicted.value / check.measured.value for check in comparable],
        ends=[_ends_of_check(check) for check in comparable],
        down=np.linspace(-0.3, 0.3, len(comparable)).tolist() if len(comparable) > 1 else 0,
        mark={**look, "mfc": look["mec"], "markersize": 3.4, "gid": "checked"},
    )
    return Row(name=name_sharding(sharding), marks=[marks], beside=f"{len(checks)}")


# Published ratios


def draw_published(ratios: Sequence[PublishedRatio], theme: Theme) -> Figure:
    """For each model the published ratio, filled, and the predicted one, hollow, with its interval."""
    published = {"marker": "D", "mfc": theme.ink, "mec": theme.ink, "mew": 0.7, "markersize": 3.1}
    predicted = {**_marker("zero1"), "mfc": theme.ground, "marker": "o", "markersize": 3.8}
    settings = list(dict.fromkeys(ratio.setting for ratio in ratios))
    largest_first = sorted(ratios, key=lambda ratio: (settings.index(ratio.setting), -ratio.published))
    groups = [
        RowGroup(heading=setting, rows=[_published_row(ratio, published, predicted) for ratio in members])
        for setting, members in groupby(largest_first, lambda ratio: ratio.setting)
    ]
    ends = [end for ratio in ratios for end in (*ratio.predicted.ends, ratio.published, 1.0)]
    room = 0.05 * (max(ends) - min(ends)) + 0.01
    chart = RowChart(
        title="ZeRO-1 over DDP: published and predicted ratio of samples/s",
        panels={"": groups},
        limits=(min(ends) - room, max(ends) + room),
        label="samples/s of ZeRO-1 over those of DDP",
        unit=TIMES,
        caption="Samples/s of ZeRO stage 1 over those of DDP; right of the line ZeRO-1 is faster. Numbers: "
        "published, predicted, and how far the prediction is off.",
        legend=[
            mark_entry("published", published),
            mark_entry("predicted", predicted),
            interval_entry(theme, "predicted: 95 % of what follows from the assumptions"),
        ],
        line=1,
        row=0.16,
    )
    return draw_rows(chart, theme)


def _published_row(ratio: PublishedRatio, published: dict[str, Any], predicted: dict[str, Any]) -> Row:
    low, high = ratio.predicted.ends
    percent = f"{100 * ratio.error:+.0f}".replace("-", "\N{MINUS SIGN}") if abs(ratio.error) >= 0.005 else "0"
    return Row(
        name=ratio.title,
        interval=(low, high) if low < high else None,
        marks=[
            Marks(values=[ratio.predicted.value], mark={**predicted, "gid": "predicted"}),
            # Above the other, so that equal ones do not hide each other.
            Marks(values=[ratio.published], down=-0.26, mark={**published, "gid": "published", "zorder": 8}),
        ],
        beside=f"{ratio.published:.2f}  {ratio.predicted.value:.2f}  {percent} %",
    )
