"""The figure of a prediction, hollow and dashed, so that it does not look measured."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from bench.report.content.shardings import name_sharding
from bench.report.figures.style import FAINT, INK, WIDTH, mark_entry, titled_figure
from bench.studies.scale.predict import WORLD_SIZES, Point, Prediction

# Marker, its size in points, colour of Okabe and Ito's palette, dashes and gaps. Sizes differ so that hollow
# ones at the same place are all seen; lines differ without colour, too, and none is solid.
_LOOKS: dict[str, tuple[str, float, str, tuple[float, ...]]] = {
    "ddp": ("o", 5.6, "#0072B2", (6.0, 2.0)),
    "zero1": ("^", 5.2, "#D55E00", (3.2, 1.6)),
    "zero2": ("D", 4.4, "#E69F00", (6.0, 1.6, 1.2, 1.6)),
    "zero3": ("P", 5.8, "#009E73", (3.0, 1.4, 1.0, 1.4, 1.0, 1.4)),
    "fsdp2": ("h", 7.4, "#8C8C8C", (9.0, 3.0)),
}


def draw_scaling(prediction: Prediction) -> Figure:
    """Draw predicted efficiency against ranks: a dashed line with its range for each sharding."""
    lines = prediction.lines
    points = [point for line in lines.values() for point in line]
    legend = [mark_entry(name_sharding(sharding), _marker(sharding)) for sharding in lines]
    if not all(point.fits for point in points):
        legend.append(mark_entry("does not fit in memory", _CROSSED))
    title = f"{prediction.config.model.name} on {prediction.topology.title}: predicted efficiency"
    figure = titled_figure(title, (WIDTH, 3.8), legend)
    axes = figure.subplots()
    axes.set(
        xlabel="ranks (the batch of each stays the same: weak scaling)",
        ylabel="predicted efficiency",
        ylim=(0, 1.04 * max(point.efficiency.high for point in points)),
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.grid(axis="y")
    _scale_ranks(axes, prediction.topology.ranks_per_node)
    for order, (sharding, line) in enumerate(lines.items()):
        _draw_line(axes, sharding, line, order)
    return figure


def _marker(sharding: str) -> dict[str, Any]:
    """A sharding's marker, hollow."""
    marker, size, colour, _ = _LOOKS[sharding]
    return {"marker": marker, "mfc": "none", "mec": colour, "mew": 1.0, "markersize": size}


_CROSSED: dict[str, Any] = {"marker": "x", "mec": INK, "mew": 0.8, "markersize": 3.8}


def _scale_ranks(axes: Axes, per_node: int) -> None:
    """Powers of two on the axis, and where the node ends."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(WORLD_SIZES[0] / 1.3, WORLD_SIZES[-1] * 1.3)
    axes.xaxis.set_major_locator(FixedLocator(WORLD_SIZES))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.axvline(per_node, color=FAINT, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
    at: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "va": "bottom", "ha": "center"}
    axes.text(per_node, 1.01, "1 node", color=FAINT, **at)


def _draw_line(axes: Axes, sharding: str, points: Sequence[Point], order: int) -> None:
    ranks, values = WORLD_SIZES, [point.efficiency.value for point in points]
    low, high = ([getattr(point.efficiency, end) for point in points] for end in ("low", "high"))
    *_, colour, dashes = _LOOKS[sharding]
    name = name_sharding(sharding)
    axes.fill_between(ranks, low, high, color=colour, alpha=0.12, linewidth=0, gid=f"range-{name}")
    dashed: dict[str, Any] = {"linestyle": (0.9 * order, dashes), "dash_capstyle": "butt"}
    axes.plot(ranks, values, color=colour, linewidth=1.3, zorder=4 + order, gid=f"line-{name}", **dashed)
    at: dict[str, Any] = {"linestyle": "none", "clip_on": False}
    axes.plot(ranks, values, zorder=20 + order, gid=f"points-{name}", **at, **_marker(sharding))
    if outside := [(point.ranks, point.efficiency.value) for point in points if not point.fits]:
        xs, ys = zip(*outside, strict=True)
        axes.plot(xs, ys, zorder=40, gid=f"does-not-fit-{name}", **at, **_CROSSED)
