"""The figure of predictions beside measurements: filled, on logarithmic planes."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.content.scale import Accuracy, CheckedPoint, name_sharding, place_of_sharding
from bench.report.figures.measured_text import inches, line_inches, wrapped
from bench.report.figures.sharding_marks import filled
from bench.report.figures.sheet import MARGIN, REPORT_WIDTH, Sheet, Swatch, set_ticks
from bench.report.figures.style import Theme

LEFT, BELOW = 0.52, 0.44
"""Inches beside and below axes, for their ticks and label."""

ALLOWED = 0.30
"""Opacity of the band of a rule."""

TITLE_OF_CHECKS = "Predicted against measured: what a rank sends, holds and takes"


def draw_checks(accuracies: Sequence[Accuracy], theme: Theme) -> Figure:
    """Predicted against measured, a logarithmic plane for each quantity, with the band of its rule."""
    sheet = Sheet(REPORT_WIDTH, theme)
    names = {check.sharding for accuracy in accuracies for check in accuracy.checks}
    shardings = sorted(names, key=lambda name: (place_of_sharding(name), name))
    sheet.title(TITLE_OF_CHECKS)
    marks = [Swatch(words=name_sharding(name), mark=filled(name, theme)) for name in shardings]
    sheet.legend([*marks, Swatch(words="95 % interval")])
    columns = min(3, len(accuracies))
    wide = min((sheet.room - columns * LEFT - (columns - 1) * 0.1) / columns, 2.6)
    headings = [wrapped(_heading(accuracy), sheet.small, wide) for accuracy in accuracies]
    above = max(map(len, headings)) * line_inches(sheet.small) + 0.06
    for number, (accuracy, heading) in enumerate(zip(accuracies, headings, strict=True)):
        row, column = divmod(number, columns)
        left = MARGIN + LEFT + column * (wide + LEFT + 0.1)
        down = above + row * (above + wide + BELOW)
        axes = sheet.axes(left, wide, wide, down=down, xlabel="measured", ylabel="predicted")
        axes.set_title("\n".join(heading), fontsize=sheet.small, loc="left", color=theme.ink, pad=4)
        _draw_plane(axes, sheet, accuracy, wide)
    sheet.y += math.ceil(len(accuracies) / columns) * (above + wide + BELOW)
    sheet.caption(
        "Filled: points that were both predicted and measured; logarithmic axes. Line: predicted = measured. "
        "Band: how far a prediction may be off."
    )
    return sheet.finish()


def _heading(accuracy: Accuracy) -> str:
    unit = _unit(accuracy)
    named = unit and unit not in ("B", "bytes", accuracy.quantity)
    words = f"{accuracy.quantity} ({unit})" if named else accuracy.quantity
    return f"{words}: {accuracy.within} of {len(accuracy.checks)} {accuracy.rule}"


def _unit(accuracy: Accuracy) -> str:
    return accuracy.checks[0].unit


def _draw_plane(axes: Axes, sheet: Sheet, accuracy: Accuracy, wide: float) -> None:
    theme = sheet.theme
    # A logarithm has no place for what is not sent at all.
    drawn = [check for check in accuracy.checks if check.measured.value > 0 and check.predicted.value > 0]
    ends = [
        end
        for check in drawn
        for number in (check.measured, check.predicted)
        for end in (*number.ends, number.value)
        if end > 0
    ]
    low, high = (min(ends), max(ends)) if ends else (1.0, 10.0)
    room = max(1.12, (high / low) ** 0.07)
    low, high = low / room, high * room
    if allowed := accuracy.allowed:
        below, above = ([end * (1 + off) for end in (low, high)] for off in (-allowed, allowed))
        look: dict[str, Any] = {"color": theme.faint, "alpha": ALLOWED, "linewidth": 0, "zorder": 1}
        gid = f"rule-{accuracy.quantity.replace(' ', '_')}"
        axes.fill_between([low, high], below, above, gid=gid, **look)
    axes.plot([low, high], [low, high], color=theme.ink, linewidth=0.8, zorder=2)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for sharding in dict.fromkeys(check.sharding for check in drawn):
        _draw_points(axes, theme, sharding, [check for check in drawn if check.sharding == sharding])
    write = _bytes if _unit(accuracy).lower() in ("bytes", "byte", "b") else "{:.3g}".format
    ticks = _ticks(low, high, wide, lambda value: inches(write(value), sheet.small))
    for axis in (axes.xaxis, axes.yaxis):
        set_ticks(axis, ticks, write)
    axes.grid(color=theme.grid, linewidth=0.5)


def _draw_points(axes: Axes, theme: Theme, sharding: str, checks: Sequence[CheckedPoint]) -> None:
    xs = [check.measured.value for check in checks]
    ys = [check.predicted.value for check in checks]
    look: dict[str, Any] = {"color": theme.ink, "linewidth": 0.7, "zorder": 3}
    for check in checks:
        if check.measured.ends[0] < check.measured.ends[1]:
            axes.plot(check.measured.ends, [check.predicted.value] * 2, **look)
        if check.predicted.ends[0] < check.predicted.ends[1]:
            axes.plot([check.measured.value] * 2, check.predicted.ends, **look)
    gid = f"points-{checks[0].quantity}-{sharding}".replace(" ", "_")
    marker = filled(sharding, theme)
    order = 5 - 0.01 * marker["markersize"]  # a smaller one does not hide a larger one at its place
    axes.plot(xs, ys, linestyle="none", zorder=order, gid=gid, **marker)


def _ticks(low: float, high: float, wide: float, width_of: Callable[[float], float]) -> list[float]:
    """Round numbers on a logarithmic axis so many inches wide, as many as have room for their words."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    per_inch = math.log(high / low) / wide

    def within(*steps: float) -> list[float]:
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        return [tick for tick in ticks if low <= tick <= high]

    tens = within(1)
    choices = [within(1, 1.5, 2, 3, 4, 5, 7), within(1, 2, 3, 5, 7), within(1, 2, 5), within(1, 3)]
    choices += [tens[::step] for step in range(1, len(tens) + 1)]
    fitting = (ticks for ticks in choices if ticks and _have_room(ticks, per_inch, width_of))
    return next(fitting, [math.sqrt(low * high)])


def _have_room(ticks: Sequence[float], per_inch: float, width_of: Callable[[float], float]) -> bool:
    return all(
        math.log(after / before) / per_inch >= (width_of(before) + width_of(after)) / 2 + 0.06
        for before, after in pairwise(ticks)
    )


def _bytes(value: float) -> str:
    """Bytes with a prefix."""
    for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g} B"


def describe_checks(accuracies: Sequence[Accuracy]) -> str:
    """All that the figure shows, in words."""
    sentences = ["Predicted against measured."]
    for accuracy in accuracies:
        points = "; ".join(
            f"{check.setting}: measured {check.measured.words()}, predicted {check.predicted.words()}"
            for check in accuracy.checks
        )
        sentences.append(f"{accuracy.quantity} ({_unit(accuracy)}): {points}.")
    return " ".join(sentences)
