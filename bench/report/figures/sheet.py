"""A sheet of a given width that is filled downwards, in inches: title, legend, charts and caption.

Texts are measured before they are placed, so that nothing overlaps at any width. The height is what was used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, Stroke
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, NullLocator

from bench.report.figures.measured_text import inches, line_inches, wrapped
from bench.report.figures.small_svg import HALO
from bench.report.figures.style import EDGE, Look, Theme

REPORT_WIDTH = 6.6
"""Inches of the figures of a report."""

NARROW, WIDE = 3.3, 5.5
"""Inches of a column of a paper, where type is smallest; and from which on there is room for more."""

SMALLEST_POINTS = 6.0
"""No type is smaller."""

MARGIN = 0.05
"""Inches on every side."""

Mark: TypeAlias = Mapping[str, Any]
"""How matplotlib draws a marker; its size is what it has in a column of a paper."""


@dataclass(frozen=True, kw_only=True)
class Swatch:
    """An entry of a legend: what a bar, a marker or, without either, an interval means."""

    words: str
    bar: Look | None = None
    mark: Mark | None = None


@dataclass
class Sheet:
    """What is drawn so far."""

    width: float  # of the whole, in inches
    theme: Theme
    y: float = MARGIN  # inches from the top to where the next thing begins
    _axes: list[tuple[Axes, float, float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._figure = Figure(figsize=(self.width, 1))
        FigureCanvasAgg(self._figure)
        self._ground = self._figure.add_axes((0, 0, 1, 1))
        self._ground.set_axis_off()

    @property
    def scale(self) -> float:
        """How much larger everything is than in a column of a paper."""
        return 1 + 0.06 * max(0.0, self.width - NARROW)

    @property
    def points(self) -> float:
        """The size of names, in points."""
        return 6.5 * self.scale

    @property
    def small(self) -> float:
        """Points of numbers, statuses and captions."""
        return max(SMALLEST_POINTS, 6.0 * self.scale)

    @property
    def room(self) -> float:
        """Inches between the margins."""
        return self.width - 2 * MARGIN

    def _add(self, artist: Artist) -> None:
        self._ground.add_artist(artist)
        artist.set_clip_on(False)

    def text(
        self, x: float, y: float, words: str, *, points: float = 0, with_halo: bool = False, **look: Any
    ) -> None:
        """Small words at a place, or in other points; `y` is their middle unless `va` says otherwise."""
        if not words:
            return
        if with_halo:
            look |= {"gid": HALO, "path_effects": self.halo(2 * self.scale)}
        defaults: dict[str, Any] = {
            "va": "center_baseline",
            "color": self.theme.ink,
            "fontsize": points or self.small,
        }
        self._add(Text(x, y, words, **{**defaults, **look}))

    def lines(self, x: float, y: float, lines: Sequence[str], *, points: float, **look: Any) -> float:
        """Lines of text below each other from `y` on; where the next would begin."""
        for words in lines:
            y += line_inches(points)
            self.text(x, y - 0.3 * points / 72, words, points=points, va="baseline", **look)
        return y

    def paragraph(self, words: str, *, points: float = 0, above: float = 0, **look: Any) -> None:
        """Words over the whole width, small or in other points, so many inches below what is there."""
        if words:
            points = points or self.small
            lines = wrapped(words, points, self.room, look.get("weight", "normal"))
            self.y = self.lines(MARGIN, self.y + above, lines, points=points, **look)

    def title(self, words: str, subtitle: str = "") -> None:
        """The title, if there is one, and what it is of."""
        self.paragraph(words, points=self.points + 1, weight="bold")
        self.caption(subtitle)

    def caption(self, words: str) -> None:
        """How to read the figure; or a heading within it."""
        self.paragraph(words, above=0.05, color=self.theme.faint)

    def bar(self, left: float, right: float, y: float, height: float, look: Look) -> None:
        """A bar in a colour and hatch around the height `y`."""
        colour, hatch = look
        rim: dict[str, Any] = {"edgecolor": EDGE, "linewidth": 0.4 * self.scale, "zorder": 2}
        corner = (min(left, right), y - height / 2)
        self._add(Rectangle(corner, abs(right - left), height, facecolor=colour, hatch=hatch, **rim))

    def shade(self, left: float, right: float, top: float, bottom: float) -> None:
        """A faint area behind everything."""
        size = right - left, bottom - top
        self._add(Rectangle((left, top), *size, facecolor=self.theme.band, linewidth=0, zorder=-1))

    def line(self, xs: Sequence[float], ys: Sequence[float], *, width: float, **look: Any) -> None:
        """A line through these places, in points of a column of a paper."""
        defaults: dict[str, Any] = {"solid_capstyle": "butt", "color": self.theme.ink}
        self._add(Line2D(xs, ys, **defaults | {"lw": width * self.scale} | look))

    def interval(self, left: float, right: float, y: float, cap: float, **look: Any) -> None:
        """A whisker; its caps reach so many inches up and down."""
        gap = float("nan")
        xs = (left, left, gap, left, right, gap, right, right)
        self.line(xs, (y - cap, y + cap, gap, y, y, gap, y - cap, y + cap), width=0.8, **look)

    def marks(self, xs: Sequence[float], ys: Sequence[float], mark: Mark) -> None:
        """Markers at these places."""
        sizes = {name: mark[name] * self.scale for name in ("markersize", "mew") if name in mark}
        self._add(Line2D(xs, ys, linestyle="none", **{**mark, **sizes}))

    def halo(self, width: float) -> list[Any]:
        """Sets a mark off from bars and lines behind it."""
        return [Stroke(linewidth=width, foreground=self.theme.ground), Normal()]

    def legend(self, swatches: Sequence[Swatch]) -> None:
        """Every entry, over as many lines as they need."""
        high = max(0.115 * self.scale, line_inches(self.small))
        x, y = MARGIN, self.y + 0.04
        for swatch in swatches:
            wide = (0.22 if swatch.bar else 0.16) * self.scale
            lines = wrapped(swatch.words, self.small, self.room - wide)
            needed = wide + max(inches(words, self.small) for words in lines)
            if x > MARGIN and x + needed > self.width - MARGIN:
                x, y = MARGIN, y + high
            self._swatch(swatch, x, y + high / 2, wide - 0.04 * self.scale)
            for number, words in enumerate(lines):
                self.text(x + wide, y + (number + 0.5) * high, words)
            y += (len(lines) - 1) * high
            x += needed + 0.1 * self.scale
        self.y = y + high if swatches else self.y

    def _swatch(self, swatch: Swatch, x: float, y: float, wide: float) -> None:
        if swatch.bar:
            self.bar(x, x + wide, y, 0.08 * self.scale, swatch.bar)
        elif swatch.mark:
            size = {"markersize": 7 if swatch.mark["marker"] == "|" else 2.9}
            self.marks([x + wide / 2], [y], {**swatch.mark, **size})
        else:
            self.interval(x, x + wide, y, 0.027 * self.scale)

    def axes(self, left: float, wide: float, high: float, *, down: float = 0, **setting: Any) -> Axes:
        """Axes in the theme's colours, with labels in small type and other settings of `Axes.set`.

        All in inches; `down` is below `y`, which the caller moves below the axes.
        """
        theme = self.theme
        small: dict[str, Any] = {"fontsize": self.small, "color": theme.ink}
        axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.append((axes, left, self.y + down, wide, high))
        axes.set_facecolor("none")
        for spine in axes.spines.values():
            spine.set_edgecolor(theme.faint)
        axes.tick_params(colors=theme.ink, labelsize=self.small, pad=2, length=2, width=0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_axisbelow(True)
        axes.set_xlabel(setting.pop("xlabel", ""), **small)
        axes.set_ylabel(setting.pop("ylabel", ""), **small)
        axes.set(**setting)
        return axes

    def finish(self) -> Figure:
        """The figure, as high as what is on it."""
        height = self.y + MARGIN + 0.02
        self._figure.set_size_inches(self.width, height)
        self._ground.set_xlim(0, self.width)
        self._ground.set_ylim(height, 0)
        for axes, left, top, wide, high in self._axes:
            place = (left / self.width, 1 - (top + high) / height, wide / self.width, high / height)
            axes.set_position(place)
        return self._figure


def set_ticks(axis: Axis, ticks: Sequence[float], write: Callable[[float], str]) -> None:
    """Put these ticks and no others on an axis of a plane, logarithmic or not."""
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: write(value))
