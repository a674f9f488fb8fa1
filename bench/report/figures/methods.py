"""The plane of speed and memory: each method an arrow from the baseline, and those that no other beats."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.analysis.methods import Method, MethodsFound
from bench.report.figures import chart, style
from bench.report.figures.style import LIGHT
from bench.report.figures.titled import titled_axes
from bench.report.words.formatting import TIMES

PLANE = 3.0
"""Inches of the plane, on either side."""

LEFT, RIGHT = 0.55, 2.35
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
"""Marker and colour of a method, by the one choice in which it consists."""

SEVERAL = ("*", LIGHT.ink)
"""The same of a method that changes several things."""

FARTHEST = 3.0
"""Times the baseline's speed or memory, or a part of it: what is beyond is drawn at the edge."""

TICKS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0)

LONGEST_LINE = 32
"""Characters of a line in the list of methods."""

Floats = npt.NDArray[np.float64]


def draw_methods(
    found: MethodsFound, names: Sequence[str], *, title: str, subtitle: str, caption: str
) -> Figure:
    """Draw the plane, with the numbered methods beside it.

    Args:
        found: with at least one method that was measured.
        names: of its methods, in words, in their order.
        title: of the figure.
        subtitle: workload and machine.
        caption: below it.
    """
    listed = _list(found, names)
    plane = max(PLANE, chart.LINE * (sum(words.count("\n") + 1 for words, _ in listed) + 1))
    figure, axes = titled_axes(title, subtitle, caption, left=LEFT, right=RIGHT, inches=plane)
    points = [(number, one, place) for number, one in enumerate(found.methods, 1) if (place := place_of(one))]
    places = [place for _, _, place in points]
    _scale(axes, places)
    _draw_front(axes, found)
    for _, one, place in points:
        marker, colour = look(one)
        line = {"arrowstyle": "-", "color": LIGHT.faint, "linewidth": 0.5, "alpha": 0.6}
        axes.annotate("", xy=place, xytext=(1, 1), arrowprops=line)
        axes.plot(*place, marker, color=colour, markersize=6, mec=style.EDGE, mew=0.5, zorder=5)
    axes.plot(1, 1, "o", color=LIGHT.ground, markersize=7, mec=LIGHT.ink, mew=1.2, zorder=6)
    _number(axes, [number for number, _, _ in points], places, figure.dpi)
    axes.set_xlabel(f"speed ({TIMES} {found.reference}, logarithmic): faster →", fontsize=8.5)
    axes.set_ylabel(f"← less memory ({TIMES} {found.reference}, logarithmic)", fontsize=8.5)
    _draw_list(figure, found, listed, top=axes.get_position().y1)
    return figure


def place_of(one: Method) -> tuple[float, float] | None:
    """Speed and memory over the baseline's, as the plane shows them; None where one is not known."""
    if not (one.speedup and one.memory_ratio):
        return None
    return at_most(one.speedup.ratio), at_most(one.memory_ratio)


def at_most(ratio: float) -> float:
    """A ratio, or the edge of the plane if it lies beyond."""
    return min(max(ratio, 1 / FARTHEST), FARTHEST)


def look(method: Method) -> tuple[str, str]:
    """Marker and colour of a method."""
    choices = [change.choice for change in method.changes]
    return MARKERS.get(choices[0], SEVERAL) if len(choices) == 1 else SEVERAL


def _scale(axes: Axes, places: Sequence[tuple[float, float]]) -> None:
    """Logarithmic axes with room around the points, and lines through the baseline."""
    for name, values in (("x", [x for x, _ in places]), ("y", [y for _, y in places])):
        logs = [math.log(value) for value in (*values, 0.97, 1.03)]
        room = 0.08 * (max(logs) - min(logs))
        axes.set(
            **{f"{name}scale": "log", f"{name}lim": (math.exp(min(logs) - room), math.exp(max(logs) + room))}
        )
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_locator(FixedLocator(_ticks(*getattr(axes, f"get_{name}lim")())))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}"))
    axes.tick_params(labelsize=8)
    axes.set_axisbelow(True)
    axes.grid(color=LIGHT.grid, linewidth=0.6)
    for line in (axes.axvline, axes.axhline):
        line(1, color=LIGHT.faint, linewidth=0.8, linestyle=(0, (4, 2)), zorder=2)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within an axis, far enough apart for their words; always the baseline."""
    apart = 0.14 * math.log(high / low)
    chosen = [1.0]
    for tick in sorted(TICKS, key=lambda tick: abs(math.log(tick))):
        if low <= tick <= high and all(abs(math.log(tick / one)) >= apart for one in chosen):
            chosen.append(tick)
    return sorted(chosen)


def _draw_front(axes: Axes, found: MethodsFound) -> None:
    """A line of steps through those that no other beats in both."""
    places = {found.reference: (1.0, 1.0)}
    places |= {one.backend: place for one in found.methods if (place := place_of(one))}
    xs, ys = zip(*(places[name] for name in found.front), strict=True)
    axes.step(xs, ys, where="pre", color=LIGHT.status, linewidth=1.2, zorder=3, label="front")


def _number(axes: Axes, numbers: Sequence[int], places: Sequence[tuple[float, float]], dpi: float) -> None:
    """Write each point's number beside it, moved away from the others."""
    if not places:
        return
    anchors = axes.transData.transform(places) * 72 / dpi
    baseline = axes.transData.transform([(1.0, 1.0)]) * 72 / dpi
    shifts = spread(anchors, np.vstack([anchors, baseline])).tolist()
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7.5, "zorder": 7}
    for number, place, shift in zip(numbers, places, shifts, strict=True):
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


def _list(found: MethodsFound, names: Sequence[str]) -> list[tuple[str, Method | None]]:
    """The list: the baseline, then every method with its number and what the plane does not show."""
    lines: list[tuple[str, Method | None]] = [(found.reference, None)]
    for number, (name, one) in enumerate(zip(names, found.methods, strict=True), 1):
        words = f"{number} {name}"
        if not (one.speedup and one.memory_ratio):
            words += f": {one.status if one.status != 'ok' else 'no speed-up'}"
        elif at_most(one.speedup.ratio) != one.speedup.ratio:
            words += f": {one.speedup.ratio:.2f}{TIMES} the speed, at the edge"
        elif at_most(one.memory_ratio) != one.memory_ratio:
            words += f": {one.memory_ratio:.2f}{TIMES} the memory, at the edge"
        lines.append((chart.wrapped(words, LONGEST_LINE), one))
    return lines


def _draw_list(
    figure: Figure, found: MethodsFound, lines: Sequence[tuple[str, Method | None]], *, top: float
) -> None:
    x = 1 - (RIGHT - 0.15) / figure.get_figwidth()
    marked = figure.add_axes((x, 0, 1 - x, 1))
    marked.set_axis_off()
    marked.set_xlim(0, 1)
    marked.set_ylim(0, 1)
    step = chart.LINE / figure.get_figheight()
    y = top - 0.7 * step
    for words, one in lines:
        if one is None:
            marked.plot(0.02, y, "o", color=LIGHT.ground, markersize=6, mec=LIGHT.ink, mew=1.2)
        elif place_of(one):
            marker, colour = look(one)
            marked.plot(0.02, y, marker, color=colour, markersize=5, mec=style.EDGE, mew=0.5)
        bold = (found.reference if one is None else one.backend) in found.front
        for line in words.split("\n"):
            marked.text(
                0.07,
                y,
                line,
                va="center",
                fontsize=7.5,
                fontweight="bold" if bold else "normal",
                color=LIGHT.status if one is not None and not one.speedup else LIGHT.ink,
            )
            y -= step
