"""The plane of speed and memory: each method an arrow from the baseline, and those that no other beats."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.analysis.methods import Method, MethodsStudy
from bench.report.figures import style
from bench.report.figures.measured_text import line_inches, wrapped
from bench.report.figures.rows import Axis
from bench.report.figures.sheet import MARGIN, REPORT_WIDTH, Sheet, set_ticks
from bench.report.figures.style import Theme
from bench.report.words.formatting import TIMES

PLANE = 3.1
"""Inches of the plane, on either side."""

LEFT, RIGHT = 0.55, 2.7
"""Inches beside it, for the axis and for the list of methods."""

APART = 11.0
"""Points that the centres of two numbers are apart at least."""

MARKERS = {
    "optimizer": ("o", "#E69F00"),
    "precision": ("s", "#0072B2"),
    "checkpointing": ("^", "#009E73"),
    "grad_accum": ("v", "#CC79A7"),
    "attention": ("D", "#56B4E9"),
    "engine": ("P", "#D55E00"),
    "sharding": ("X", "#999999"),
}
"""Marker and colour of a method, by the one choice in which it consists; else it is a star."""

FARTHEST = 3.0
"""Times the baseline's speed or memory, or a part of it: what is beyond is drawn at the edge."""

Floats = npt.NDArray[np.float64]


def draw_methods(
    results: MethodsStudy, names: Sequence[str], theme: Theme, *, title: str, subtitle: str, caption: str
) -> Figure:
    """Draw the plane, and beside it the methods under these names; at least one of them was measured."""
    sheet = Sheet(REPORT_WIDTH, theme)
    sheet.title(title, subtitle)
    sheet.y += 0.1
    bottom = _draw_list(sheet, results, names)
    wide, high = sheet.width - LEFT - RIGHT, max(PLANE, bottom - sheet.y)
    over = f"({TIMES} {results.reference}, logarithmic)"
    labels: dict[str, Any] = {"xlabel": f"speed {over}: faster →", "ylabel": f"← less memory {over}"}
    axes = sheet.axes(LEFT, wide, high, **labels)
    places = {
        number: place for number, method in enumerate(results.methods, 1) if (place := place_of(method))
    }
    _scale(axes, theme, list(places.values()))
    _draw_front(axes, theme, results)
    for number, place in places.items():
        method = results.methods[number - 1]
        line = {"arrowstyle": "-", "color": theme.faint, "linewidth": 0.5, "alpha": 0.6}
        axes.annotate("", xy=place, xytext=(1, 1), arrowprops=line)
        axes.plot(*place, linestyle="none", zorder=5, **mark_of(method, theme) | {"markersize": 6})
    axes.plot(1, 1, linestyle="none", zorder=6, **_baseline(theme) | {"markersize": 7})
    sheet.y += high + 0.42
    sheet.caption(caption)
    figure = sheet.finish()
    if places:
        _number(axes, theme, places, figure.dpi)
    return figure


def place_of(method: Method) -> tuple[float, float] | None:
    """Speed and memory over the baseline's, as the plane shows them; None where one is not known."""
    if not (method.speedup and method.memory_ratio):
        return None
    return at_most(method.speedup.ratio), at_most(method.memory_ratio)


def at_most(ratio: float) -> float:
    """A ratio, or the edge of the plane if it lies beyond."""
    return min(max(ratio, 1 / FARTHEST), FARTHEST)


def mark_of(method: Method, theme: Theme) -> dict[str, Any]:
    """The marker of a method."""
    choices = [change.choice for change in method.changes]
    star = ("*", theme.ink)
    marker, colour = MARKERS.get(choices[0], star) if len(choices) == 1 else star
    return {"marker": marker, "color": colour, "mec": style.EDGE, "mew": 0.5, "markersize": 4.2}


def _baseline(theme: Theme) -> dict[str, Any]:
    return {"marker": "o", "color": theme.ground, "mec": theme.ink, "mew": 1.0, "markersize": 5}


def _scale(axes: Axes, theme: Theme, places: Sequence[tuple[float, float]]) -> None:
    """Logarithmic axes with room around the points, and lines through the baseline."""
    axes.set(xscale="log", yscale="log")
    for axis, set_limits, values in (
        (axes.xaxis, axes.set_xlim, [x for x, _ in places]),
        (axes.yaxis, axes.set_ylim, [y for _, y in places]),
    ):
        logs = [math.log(value) for value in (*values, 0.97, 1.03)]
        room = 0.08 * (max(logs) - min(logs))
        low, high = math.exp(min(logs) - room), math.exp(max(logs) + room)
        set_limits(low, high)
        ticks = Axis(low=low, high=high, logarithmic=True).ticks(0.14)
        set_ticks(axis, ticks, lambda value: f"{value:.2f}")
    axes.grid(color=theme.grid, linewidth=0.6)
    for line in (axes.axvline, axes.axhline):
        line(1, color=theme.faint, linewidth=0.8, linestyle=(0, (4, 2)), zorder=2)


def _draw_front(axes: Axes, theme: Theme, results: MethodsStudy) -> None:
    """A line of steps through those that no other beats in both."""
    places = {results.reference: (1.0, 1.0)}
    places |= {method.backend: place for method in results.methods if (place := place_of(method))}
    xs, ys = zip(*(places[name] for name in results.front), strict=True)
    axes.step(xs, ys, where="pre", color=theme.status, linewidth=1.2, zorder=3, label="front")


def _number(axes: Axes, theme: Theme, places: Mapping[int, tuple[float, float]], dpi: float) -> None:
    """Write each point's number beside it, moved away from the others."""
    anchors = axes.transData.transform([*places.values()]) * 72 / dpi
    baseline = axes.transData.transform([(1.0, 1.0)]) * 72 / dpi
    shifts = spread(anchors, np.vstack([anchors, baseline])).tolist()
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7.5, "zorder": 7, "color": theme.ink}
    for (number, place), shift in zip(places.items(), shifts, strict=True):
        axes.annotate(str(number), xy=place, xytext=shift, textcoords="offset points", **look)


def spread(anchors: Floats, obstacles: Floats) -> Floats:
    """Where to write a label of each anchor so that none lies on another label or on an obstacle.

    Args:
        anchors: shape (n, 2), in points.
        obstacles: shape (m, 2), in points: what must stay visible.

    Returns:
        Shape (n, 2): each label's place relative to its anchor.
    """
    count = len(anchors)
    angles = 2.4 * np.arange(count)  # the golden angle, so that equal anchors start in different directions
    labels = anchors + APART * np.column_stack([np.cos(angles), np.sin(angles)])
    for _ in range(300):
        others = np.vstack([labels, obstacles])
        apart = labels[:, None] - others[None]
        distance = np.linalg.norm(apart, axis=2)
        distance[np.arange(count), np.arange(count)] = np.inf
        close = np.clip(APART - distance, 0, None)
        if not close.any():
            break
        towards = apart / np.maximum(distance, 1e-6)[..., None]
        labels = labels + 0.5 * (close[..., None] * np.nan_to_num(towards)).sum(axis=1)
    shifts: Floats = labels - anchors
    return shifts


def _draw_list(sheet: Sheet, results: MethodsStudy, names: Sequence[str]) -> float:
    """List the baseline and every method, with what the plane does not show; where the list ends."""
    x, theme = sheet.width - RIGHT + 0.2, sheet.theme
    listed: list[tuple[str, Method | None]] = [(results.reference, None)]
    listed += [
        (f"{number} {name}{_remark(method)}", method)
        for number, (name, method) in enumerate(zip(names, results.methods, strict=True), 1)
    ]
    y = sheet.y
    for words, method in listed:
        is_best = (method.backend if method else results.reference) in results.front
        look = {
            "weight": "bold" if is_best else "normal",
            "color": theme.status if method and not method.speedup else theme.ink,
        }
        if method is None or place_of(method):
            mark = mark_of(method, theme) if method else _baseline(theme)
            sheet.marks([x], [y + line_inches(sheet.small) / 2], mark)
        lines = wrapped(words, sheet.small, sheet.width - MARGIN - x - 0.12, look["weight"])
        y = sheet.lines(x + 0.12, y, lines, points=sheet.small, **look) + 0.03
    return y


def _remark(method: Method) -> str:
    if not (method.speedup and method.memory_ratio):
        return f": {method.status if method.status != 'ok' else 'no speed-up'}"
    for ratio, name in ((method.speedup.ratio, "speed"), (method.memory_ratio, "memory")):
        if at_most(ratio) != ratio:
            return f": {ratio:.2f}{TIMES} the {name}, at the edge"
    return ""
