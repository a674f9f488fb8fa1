"""How every figure looks: colours, hatches, fonts, sizes."""

import zlib
from dataclasses import dataclass
from typing import Any, TypeAlias

POINTS, SMALL = 7.5, 6.5  # the sizes of titles and model names, and of all other words

Look: TypeAlias = tuple[str, str]  # colour and hatch of a bar

# Okabe and Ito's palette, which holds for colour-blind readers (jfly.uni-koeln.de/color). A hatch
# distinguishes neighbours where colour is lost; it is of straight lines, which a file repeats in few bytes.
_KNOWN = {
    "pytorch": ("#56B4E9", ""),
    "pytorch_fused": ("#0072B2", "///"),
    "pytorch_zero1": ("#CC79A7", "\\\\\\"),
    "pytorch_sdpa": ("#F0E442", "---"),
    "ortmodule": ("#E69F00", "|||"),
    "ortmodule_adamw": ("#F0E442", "++"),
    "ortmodule_zero1": ("#D55E00", "xxx"),
    "pytorch_fused_zero1": ("#999999", "xx"),
    "ortmodule_adamw_zero1": ("#009E73", "//"),
    "compile": ("#009E73", "+++"),
    "pytorch@modern": ("#56B4E9", "///"),
    "pytorch_zero1@modern": ("#CC79A7", "|||"),
    "compile@modern": ("#009E73", "---"),
}
_OTHERS = [
    (colour, hatch)
    for colour in ("#009E73", "#F0E442", "#CC79A7", "#0072B2")
    for hatch in ("//", "\\\\", "++", "--", "||")
]


@dataclass(frozen=True, kw_only=True)
class Theme:
    """The colours that are not a backend's: for a light or a dark ground."""

    ground: str
    ink: str
    faint: str
    grid: str
    band: str
    best: str  # the mark of the fastest PyTorch
    status: str  # words in place of a bar


LIGHT = Theme(
    ground="#ffffff",
    ink="#1a1a1a",
    faint="#555555",
    grid="#dedede",
    band="#eeeeee",
    best="#0b4f8a",
    status="#9b1c1c",
)
DARK = Theme(
    ground="#161616",
    ink="#f2f2f2",
    faint="#b8b8b8",
    grid="#3a3a3a",
    band="#2a2a2a",
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
    "host": ("#DDDDDD", ""),
    "other": (WHITE, "////"),
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


def look(backend: str) -> Look:
    """Colour and hatch of a backend, the same in every figure; unknown names get theirs by name."""
    if backend in _KNOWN:
        return _KNOWN[backend]
    return _OTHERS[zlib.crc32(backend.encode()) % len(_OTHERS)]


def rimmed(look: Look) -> dict[str, Any]:
    """A bar's colour, hatch and edge, as matplotlib's patches take them."""
    colour, hatch = look
    return {"facecolor": colour, "hatch": hatch, "edgecolor": EDGE, "linewidth": 0.4}


def diamond(theme: Theme, fill: str) -> dict[str, Any]:
    """The marker of a published or a timed value."""
    return {"marker": "D", "mfc": fill, "mec": theme.ink, "mew": 0.7, "markersize": 2.9}
