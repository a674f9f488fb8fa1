"""A sheet of a given width that is filled downwards, in inches: title, legend, charts and caption.

Texts are measured before they are placed, so that nothing overlaps at any width. The height is what was used.
"""

import textwrap
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend_handler import HandlerLine2D
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import Normal, Stroke
from matplotlib.ticker import Locator, LogLocator, MaxNLocator

from bench.report.figures.style import POINTS, SMALL, Look, Theme, rimmed
from bench.report.words.formatting import one_line

REPORT_WIDTH = 6.6  # inches of the figures of a report
WIDE = 5.5  # inches from which on there is room for intervals as numbers
MARGIN = 0.05  # inches on every side
LINE = 1.25 * SMALL / 72  # inches from one line of small text to the next
HANDLE, BEHIND_HANDLE, COLUMNS_APART = 1.8, 0.4, 1.2  # of a legend, in heights of its type

_DPI = 720  # at which texts are measured: so fine that hinting does not matter
_RENDERER = RendererAgg(1, 1, _DPI)


class Sheet:
    """What is drawn so far; `y` is how many inches are used from the top."""

    def __init__(self, width: float, theme: Theme) -> None:
        self.width, self.theme, self.y = width, theme, MARGIN
        self._figure = Figure(figsize=(width, 1))
        FigureCanvasAgg(self._figure)
        self._ground = self._figure.add_axes((0, 0, 1, 1), zorder=1)  # above all other axes
        self._ground.set_axis_off()
        self._places: dict[Axes, tuple[float, float, float, float]] = {}  # left, top, width, height

    @property
    def room(self) -> float:
        """Inches between the margins."""
        return self.width - 2 * MARGIN

    def text(self, x: float, y: float, words: str, **look: Any) -> None:
        """Small words at a place; `y` is their middle unless `va` says otherwise."""
        self._ground.text(x, y, words, **{"va": "center_baseline", "color": self.theme.ink} | look)

    def paragraph(self, words: str, *, points: float = SMALL, above: float = 0, **look: Any) -> None:
        """Words over the whole width, so many inches below what is there; no grid shines through."""
        ground = {"facecolor": self.theme.ground, "edgecolor": "none", "pad": 0.3}
        self.y += above if words else 0
        for line in wrapped(words, points, self.room, look.get("weight", "normal")):
            self.y += 1.25 * points / 72
            place = self.y - 0.3 * points / 72
            self.text(MARGIN, place, line, va="baseline", fontsize=points, bbox=ground, **look)

    def title(self, words: str, subtitle: str = "") -> None:
        """The title, if there is one, and what it is of."""
        self.paragraph(words, points=POINTS + 1, weight="bold")
        self.caption(subtitle)

    def caption(self, words: str) -> None:
        """How to read the figure; or a heading within it."""
        self.paragraph(words, above=0.05, color=self.theme.faint)

    def legend(self, entries: Sequence[Artist]) -> None:
        """These entries with their labels, in as many columns as have room."""
        for entry in entries:
            words = one_line(str(entry.get_label()))
            entry.set_label("\n".join(wrapped(words, SMALL, self.room - 0.3)))
        if not entries:
            return
        whiskers = [entry for entry in entries if isinstance(entry, Line2D) and entry.get_linestyle() == "-"]
        legend = self._ground.legend(
            handles=entries,
            handler_map={whisker: HandlerLine2D(numpoints=2) for whisker in whiskers},
            ncols=self._columns_of(entries),
            loc="upper left",
            bbox_to_anchor=(MARGIN, self.y + 0.06),
            bbox_transform=self._ground.transData,
            labelcolor=self.theme.ink,
            frameon=False,
            fontsize=SMALL,
            **{"borderpad": 0, "borderaxespad": 0, "labelspacing": 0.3, "columnspacing": COLUMNS_APART},
            **{"handlelength": HANDLE, "handletextpad": BEHIND_HANDLE},
        )
        self.y += 0.08 + legend.get_window_extent().height / self._figure.dpi

    def _columns_of(self, entries: Sequence[Artist]) -> int:
        """The most columns of a legend that have room; the first ones have one entry more if it must be."""
        letter = SMALL / 72
        handle, apart = (HANDLE + BEHIND_HANDLE) * letter, COLUMNS_APART * letter
        widths = [handle + widest(str(entry.get_label()).split("\n")) for entry in entries]
        for columns in range(len(entries), 1, -1):
            parts = np.array_split(widths, columns)  # as matplotlib divides them
            if sum(part.max() for part in parts) + apart * (columns - 1) <= self.room:
                return columns
        return 1

    def axes(self, left: float, top: float, wide: float, high: float, **setting: Any) -> Axes:
        """Axes at this place in inches, in the theme's colours, with settings of `Axes.set`."""
        theme = self.theme
        axes = self._figure.add_axes((0, 0, 1, 1), facecolor="none", axisbelow=True)
        self._places[axes] = (left, top, wide, high)
        axes.spines[["top", "left", "right"]].set_visible(False)
        axes.spines["bottom"].set_edgecolor(theme.faint)
        axes.tick_params(colors=theme.ink, labelsize=SMALL, pad=2, length=2, width=0.6)
        axes.tick_params(axis="y", length=0)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set(fontsize=SMALL, color=theme.ink)
        axes.set(**setting)
        return axes

    def place(self, axes: Axes, *, high: float) -> None:
        """Make axes so many inches high."""
        self._places[axes] = (*self._places[axes][:3], high)

    def finish(self) -> Figure:
        """The figure, as high as what is on it."""
        height = self.y + MARGIN + 0.02
        self._figure.set_size_inches(self.width, height)
        self._ground.set(xlim=(0, self.width), ylim=(height, 0))
        for axes, (left, top, wide, high) in self._places.items():
            place = (left / self.width, 1 - (top + high) / height, wide / self.width, high / height)
            axes.set_position(place)
        return self._figure


def bar_entry(words: str, look: Look) -> Patch:
    """An entry of a legend: a bar."""
    return Patch(label=words, **rimmed(look))


def mark_entry(words: str, mark: dict[str, Any]) -> Line2D:
    """An entry of a legend: a marker as `Axes.plot` draws it."""
    return Line2D([], [], label=words, linestyle="none", **mark)


def interval_entry(theme: Theme, words: str = "95 % interval") -> Line2D:
    """An entry of a legend: a whisker."""
    return Line2D([], [], label=words, color=theme.ink, linewidth=0.8, marker="|", markersize=4)


def halo(theme: Theme, width: float) -> list[Any]:
    """Sets a line off from what is behind it."""
    return [Stroke(linewidth=width, foreground=theme.ground), Normal()]


@lru_cache(maxsize=4096)
def inches(words: str, points: float = SMALL, weight: str = "normal") -> float:
    """How wide these words are."""
    font = FontProperties(size=points, weight=weight)
    width, _, _ = _RENDERER.get_text_width_height_descent(words, font, False)
    return 1.02 * float(width) / _DPI  # hinting makes small type a little wider


def widest(lines: Iterable[str]) -> float:
    """Inches of the widest of these lines of small text."""
    return max(map(inches, lines), default=0.0)


def wrapped(words: str, points: float, most: float, weight: str = "normal") -> list[str]:
    """Lines of at most so many inches, broken at spaces and hyphens, or in a word that is longer."""
    letters = max(1, int(most * 72 / points / 0.45))  # narrower than any usual text
    while True:
        lines = textwrap.wrap(one_line(words), letters)
        if letters == 1 or all(inches(line, points, weight) <= most for line in lines):
            return lines
        letters -= 1


def fitted(words: str, most: float, points: float = SMALL) -> str:
    """The words on one line, or their beginning and an ellipsis; far too long ones are not measured."""
    words = one_line(words[:1000])
    lines = wrapped(words, points, most)
    return words if len(lines) < 2 else f"{wrapped(words, points, most - 0.1)[0].rstrip(',;:')}…"


def find_ticks(low: float, high: float, most: int, *, logarithmic: bool) -> list[float]:
    """At most so many round values of an axis, at least one; where it is one of ratios 1 is among them."""
    whole, halves, tens = LogLocator(subs=(1, 2, 5)), LogLocator(subs=(1, 3)), LogLocator()
    locators: list[Locator] = [whole, halves, tens]
    if not logarithmic or high / low < 6:  # else linear steps would crowd at the upper end
        locators = [MaxNLocator(steps, steps=[1, 2, 2.5, 5, 10]) for steps in range(min(most, 9), 0, -1)]
    for locator in locators:
        ticks = [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]
        if 1 <= len(ticks) <= most:
            return ticks
    return [1.0]
