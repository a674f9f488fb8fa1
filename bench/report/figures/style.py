"""The style of every figure: colours, hatches, fonts, sizes."""

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any, TypeAlias

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.report.words.formatting import one_line

POINTS, SMALL = 8.0, 7.0
"""Points of titles and model names, and of all other words, which are 12 pixels high on a page."""

WIDTH = 6.6  # inches of the figures of a report
LETTER = 0.055  # inches that a letter of small words takes, at the most of usual ones

Look: TypeAlias = tuple[str, str]  # colour and hatch of a bar

# Okabe and Ito's palette, which holds for colour-blind readers (jfly.uni-koeln.de/color). A hatch
# distinguishes neighbours where colour is lost; it is of straight lines, which a file repeats in few bytes.
_KNOWN = {
    "pytorch": ("#56B4E9", ""),
    "pytorch_best": ("#0072B2", ""),
    "ortmodule": ("#E69F00", "|||"),
    "ortmodule_zero1": ("#D55E00", "xxx"),
    "pytorch_fused": ("#009E73", "///"),
    "pytorch_zero1": ("#CC79A7", "\\\\\\"),
    "compile": ("#F0E442", "+++"),
    "pytorch@modern": ("#999999", "---"),
}
MARKERS = "os^DvPXh"  # of backends in their order, for readers who do not see colours
_HATCHES = ("--", "//", "++", "\\\\", "||")


GROUND, INK, FAINT, GRID = "#ffffff", "#1a1a1a", "#555555", "#dedede"
BEST, STATUS = "#0b4f8a", "#9b1c1c"
"""The colour of the mark of the fastest PyTorch, and of words in place of a bar."""

EDGE = "#1b1b1b"  # of bars

PARTS = {
    "libraries": ("#BBBBBB", ""),
    "weights": ("#0072B2", "///"),
    "gradients": ("#56B4E9", "|||"),
    "optimizer states": ("#E69F00", "xxx"),
    "activations and the rest": (GROUND, ""),
}
"""Colours and hatches of a peak's parts, from the foot of the bar."""

RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": SMALL,
    "text.parse_math": False,  # a "$" in a name is a dollar
    "text.color": INK,
    "hatch.linewidth": 0.5,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "bench",  # the same input gives the same bytes
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.titlesize": POINTS + 1,
    "figure.titleweight": "bold",
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "ytick.major.size": 0,
}
"""matplotlib's settings for every figure."""


def looks(backends: Iterable[str]) -> dict[str, Look]:
    """Colour and hatch of each backend of a figure: fixed for known backends, else an unused pair."""
    names = dict.fromkeys(backends)
    chosen = {name: _KNOWN[name] for name in names if name in _KNOWN}
    colours = [colour for colour, _ in _KNOWN.values()]
    used = {colour for colour, _ in chosen.values()}
    free = [(colour, "") for colour in colours if colour not in used]
    free += [(colour, hatch) for hatch in _HATCHES for colour in colours]
    others = [name for name in names if name not in chosen]
    return chosen | {name: free[place % len(free)] for place, name in enumerate(others)}


def markers_of(backends: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The marker and colour of each backend, as `Axes.plot` takes them."""
    return {
        name: {"marker": MARKERS[place % len(MARKERS)], "color": colour, "mec": EDGE, "markersize": 3.4}
        for place, (name, (colour, _)) in enumerate(looks(backends).items())
    }


def rimmed(look: Look) -> dict[str, Any]:
    """A bar's colour, hatch and edge, as matplotlib's patches take them."""
    colour, hatch = look
    return {"facecolor": colour, "hatch": hatch, "edgecolor": EDGE, "linewidth": 0.4}


def bar_entry(words: str, look: Look) -> Patch:
    """An entry of a legend: a bar."""
    return Patch(label=one_line(words), **rimmed(look))


def mark_entry(words: str, mark: dict[str, Any]) -> Line2D:
    """An entry of a legend: a marker as `Axes.plot` draws it."""
    return Line2D([], [], label=one_line(words), linestyle="none", **mark)


def interval_entry() -> Line2D:
    """An entry of a legend: a whisker."""
    return Line2D([], [], label="95 % interval", color=INK, linewidth=0.8, marker="|", markersize=4)


def titled_figure(title: str, size: tuple[float, float], legend: Sequence[Artist]) -> Figure:
    """A figure of `size` inches, with its title above and its legend below the drawing."""
    figure = Figure(size, layout="constrained")
    if title:
        letters = int(size[0] / LETTER / 1.45)  # bold and larger
        figure.suptitle(fill(one_line(title), letters), x=0.01, ha="left")
    if legend:
        longest = max(len(str(entry.get_label())) for entry in legend)
        columns = max(1, int(size[0] / (LETTER * (longest + 6))))
        figure.legend(handles=legend, loc="outside lower left", ncols=columns)
    return figure
