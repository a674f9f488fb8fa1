"""A legend that flows over as many lines as it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.report.figures.canvas import MARGIN, Canvas, inches, wrapped


@dataclass(frozen=True, kw_only=True)
class Swatch:
    """One entry.

    Attributes:
        words: what it means.
        patch: colour and hatch of bars.
        whisker: whether it is an interval.
        marker: how matplotlib draws its marker, without the size.
    """

    words: str
    patch: tuple[str, str] | None = None
    whisker: bool = False
    marker: Mapping[str, Any] = field(default_factory=dict)


def draw_legend(canvas: Canvas, y: float, swatches: Sequence[Swatch]) -> float:
    """Draw the legend downwards from `y`; return the y below it."""
    unit = canvas.scale
    high = max(0.115 * unit, canvas.line_inches(canvas.small))
    x = MARGIN
    for one in swatches:
        wide = (0.22 if one.patch else 0.16) * unit
        lines = wrapped(one.words, canvas.small, canvas.width - 2 * MARGIN - wide)
        needed = wide + max(inches(words, canvas.small) for words in lines)
        if x > MARGIN and x + needed > canvas.width - MARGIN:
            x, y = MARGIN, y + high
        _draw_swatch(canvas, one, x, y + high / 2, wide - 0.04 * unit)
        for words in lines:
            canvas.text(x + wide, y + high / 2, words)
            y += high
        y -= high
        x += needed + 0.1 * unit
    return y + high if swatches else y


def _draw_swatch(canvas: Canvas, one: Swatch, x: float, y: float, wide: float) -> None:
    unit = canvas.scale
    if one.patch:
        canvas.bar(x, x + wide, y, 0.08 * unit, one.patch)
    elif one.whisker:
        canvas.line((x, y), (x + wide, y), lw=0.8 * unit)
        for end in (x, x + wide):
            canvas.line((end, y - 0.027 * unit), (end, y + 0.027 * unit), lw=0.8 * unit)
    else:
        size = {"markersize": (7 if one.marker["marker"] == "|" else 2.9) * unit}
        canvas.mark(x + wide / 2, y, **{**one.marker, **size})
