"""How every figure looks: colours, hatches, fonts, sizes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

POINTS, SMALL = 8.0, 7.0
"""Points of titles and model names, and of all other words, which are 12 pixels high on a page."""

PAGE_WIDTH = 830  # pixels of a picture on a page of GitHub

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
_HATCHES = ("--", "//", "++", "\\\\", "||")


@dataclass(frozen=True, kw_only=True)
class Theme:
    """The colours that are not a backend's: for a light or a dark ground."""

    ground: str
    ink: str
    faint: str
    grid: str
    best: str  # the mark of the fastest PyTorch
    status: str  # words in place of a bar


LIGHT = Theme(
    ground="#ffffff",
    ink="#1a1a1a",
    faint="#555555",
    grid="#dedede",
    best="#0b4f8a",
    status="#9b1c1c",
)
DARK = Theme(
    ground="#161616",
    ink="#f2f2f2",
    faint="#b8b8b8",
    grid="#3a3a3a",
    best="#8ac4ff",
    status="#ff9b9b",
)
"""The ground is that of the page (bench/report/render/page.css). An SVG in the light theme has the dark
colours, too."""

EDGE, WHITE = "#1b1b1b", "#fefefe"
"""The edge of bars on any ground. Hatches are seen on bright colours, so the edge is no colour of a theme."""

PARTS = {
    "libraries": ("#BBBBBB", ""),
    "weights": ("#0072B2", "///"),
    "gradients": ("#56B4E9", "|||"),
    "optimizer states": ("#E69F00", "xxx"),
    "activations and the rest": (WHITE, ""),
}
"""Colours and hatches of a peak's parts, from the foot of the bar."""

KINDS = {
    "matrix products": ("#0072B2", ""),
    "softmax": ("#CC79A7", "|||"),
    "normalisation": ("#009E73", ""),
    "elementwise": ("#F0E442", "///"),
    "embedding": ("#CC79A7", ""),
    "loss": ("#D55E00", "xxx"),
    "dropout": ("#009E73", "+++"),
    "copies": ("#56B4E9", "\\\\\\"),
    "optimizer": ("#E69F00", "|||"),
    "communication": ("#999999", "---"),
    "host": ("#7A4F2B", ""),
    "other": ("#C9C9C9", "////"),
    "not in the profile": (WHITE, ""),
}
"""Colours and hatches of the kinds of work in a step, from the foot of the bar."""


def rc(theme: Theme) -> dict[str, Any]:
    """matplotlib's settings for a figure in this theme."""
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
        "font.size": SMALL,
        "text.parse_math": False,  # a "$" in a name is a dollar
        "hatch.linewidth": 0.5,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "bench",  # the same input gives the same bytes
        "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
        "figure.facecolor": theme.ground,
        "savefig.facecolor": theme.ground,
        "text.color": theme.ink,
    }


def looks(backends: Iterable[str]) -> dict[str, Look]:
    """Colour and hatch of each backend of a figure: of known ones as everywhere, else what is left."""
    names = dict.fromkeys(backends)
    chosen = {name: _KNOWN[name] for name in names if name in _KNOWN}
    colours = [colour for colour, _ in _KNOWN.values()]
    used = {colour for colour, _ in chosen.values()}
    free = [(colour, "") for colour in colours if colour not in used]
    free += [(colour, hatch) for hatch in _HATCHES for colour in colours]
    others = [name for name in names if name not in chosen]
    return chosen | {name: free[place % len(free)] for place, name in enumerate(others)}


def rimmed(look: Look) -> dict[str, Any]:
    """A bar's colour, hatch and edge, as matplotlib's patches take them."""
    colour, hatch = look
    return {"facecolor": colour, "hatch": hatch, "edgecolor": EDGE, "linewidth": 0.4}


def diamond(theme: Theme) -> dict[str, Any]:
    """The marker of a published or a timed value."""
    return {"marker": "D", "mfc": theme.ground, "mec": theme.ink, "mew": 0.7, "markersize": 2.9}
