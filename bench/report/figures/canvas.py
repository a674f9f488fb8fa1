"""A sheet of a given width on which charts are laid out in inches, from the top left corner downwards.

Texts are measured before they are placed, so that nothing overlaps at any width. The height is what was used.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, Stroke
from matplotlib.text import Text

from bench.report.figures.small_svg import HALO
from bench.report.figures.style import EDGE, Theme
from bench.report.words.formatting import one_line

NARROW = 3.3
"""Inches of a column of a paper, where type is smallest."""

SMALLEST_POINTS = 6.0
"""No type is smaller."""

MARGIN = 0.05
"""Inches on every side."""

_DPI = 720
"""For measuring: fine enough that hinting does not matter."""


@dataclass
class Canvas:
    """What is drawn so far.

    Attributes:
        width: of the whole, in inches.
        theme: its colours.
    """

    width: float
    theme: Theme
    _artists: list[Any] = field(default_factory=list)

    @property
    def scale(self) -> float:
        """How much larger everything is than in a column of a paper."""
        return 1 + 0.06 * max(0.0, self.width - NARROW)

    @property
    def points(self) -> float:
        """Of names."""
        return 6.5 * self.scale

    @property
    def small(self) -> float:
        """Points of numbers, statuses and captions."""
        return max(SMALLEST_POINTS, 6.0 * self.scale)

    def line_inches(self, points: float) -> float:
        """From one line of text to the next."""
        return 1.25 * points / 72

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        points: float | None = None,
        with_halo: bool = False,
        **look: Any,
    ) -> None:
        """Words at a place; `y` is their middle unless `va` says otherwise."""
        if with_halo:
            look |= {"gid": HALO, "path_effects": self.halo(2 * self.scale)}
        defaults: dict[str, Any] = {
            "va": "center_baseline",
            "color": self.theme.ink,
            "fontsize": points or self.small,
        }
        self._artists.append(Text(x, y, words, **defaults | look))

    def lines(self, x: float, y: float, lines: Sequence[str], *, points: float, **look: Any) -> float:
        """Lines of text below each other from `y` on; where the next would begin."""
        for words in lines:
            y += self.line_inches(points)
            self.text(x, y - 0.3 * points / 72, words, points=points, va="baseline", **look)
        return y

    def bar(self, left: float, right: float, y: float, height: float, look: tuple[str, str]) -> None:
        """A bar in a colour and hatch around the height `y`."""
        colour, hatch = look
        place = (min(left, right), y - height / 2)
        self._artists.append(
            Rectangle(
                place,
                abs(right - left),
                height,
                facecolor=colour,
                hatch=hatch,
                edgecolor=EDGE,  # in both themes: hatches are seen on bright colours
                linewidth=0.4 * self.scale,
                zorder=2,
            )
        )

    def line(self, start: tuple[float, float], end: tuple[float, float], **look: Any) -> None:
        """A straight line."""
        xs, ys = zip(start, end, strict=True)
        self._artists.append(Line2D(xs, ys, **{"solid_capstyle": "butt", "color": self.theme.ink} | look))

    def mark(self, x: float, y: float, **look: Any) -> None:
        """One marker."""
        self._artists.append(Line2D([x], [y], linestyle="none", **look))

    def halo(self, width: float) -> list[Any]:
        """Sets a mark off from bars and lines behind it."""
        return [Stroke(linewidth=width, foreground=self.theme.ground), Normal()]

    def finish(self, height: float) -> Figure:
        """The figure, so many inches high."""
        figure = Figure(figsize=(self.width, height))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, self.width)
        axes.set_ylim(height, 0)
        for artist in self._artists:
            axes.add_artist(artist)
            artist.set_clip_on(False)
        return figure


def inches(words: str, points: float, weight: str = "normal") -> float:
    """How wide these words are."""
    return _measured(words, points, weight)


@lru_cache(maxsize=4096)
def _measured(words: str, points: float, weight: str) -> float:
    font = FontProperties(size=points, weight=weight)
    width, _, _ = _renderer().get_text_width_height_descent(words, font, False)
    return 1.02 * float(width) / _DPI  # hinting makes small type a little wider


@lru_cache(maxsize=1)
def _renderer() -> RendererAgg:
    return RendererAgg(1, 1, _DPI)


def wrapped(words: str, points: float, most: float, weight: str = "normal") -> list[str]:
    """Lines of at most so many inches, broken at spaces; longer words behind a sign, or anywhere."""
    lines: list[str] = []
    for word in one_line(words).split():
        if lines and inches(f"{lines[-1]} {word}", points, weight) <= most:
            lines[-1] += f" {word}"
        else:
            lines += _broken(word, points, most, weight)
    return lines


def _broken(word: str, points: float, most: float, weight: str) -> list[str]:
    pieces = []
    while inches(word, points, weight) > most and len(word) > 1:
        fits = _longest_start(word, points, most, weight)
        sign = re.match(r".*[-_/+,=]", word[:fits])
        end = sign.end() if sign else fits
        pieces.append(word[:end])
        word = word[end:]
    return [*pieces, word]


def fitted(words: str, points: float, most: float, weight: str = "normal") -> str:
    """The words, or as many of their characters as fit, and an ellipsis."""
    words = one_line(words)
    if inches(words, points, weight) <= most:
        return words
    return words[: _longest_start(words, points, most, weight, ending="…")].rstrip(" ,;:") + "…"


def _longest_start(words: str, points: float, most: float, weight: str, ending: str = "") -> int:
    """How many characters fit, at least one."""
    short, long = 1, len(words)
    while short < long:
        middle = (short + long + 1) // 2
        if inches(words[:middle] + ending, points, weight) <= most:
            short = middle
        else:
            long = middle - 1
    return short
