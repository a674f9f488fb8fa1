"""Writes a figure as SVG, PDF or PNG; the same input gives the same bytes."""

import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.report.figures import style
from bench.results.atomic import write_atomically

_UNDATED = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer"), "png": ("Software",)}

PAGE_WIDTH = 830  # pixels of a picture on a page of GitHub


def write_figure(path: Path, draw: Callable[[], Figure], *, on_page: bool = True) -> None:
    """Draw a figure and write it in the format that the path's ending names: .svg, .pdf or .png.

    `on_page` makes an SVG as wide as a page shows it.
    """
    ending = path.suffix.lower().removeprefix(".")
    content = io.BytesIO()
    with rc_context(style.RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script without font
        draw().savefig(content, format=ending, dpi=300, metadata=dict.fromkeys(_UNDATED[ending]))
    written = content.getvalue()
    svg = written.decode() if ending == "svg" else ""
    # Tags alone: in texts every "<" is written as "&lt;".
    svg = re.sub("<(?:path|use|text) [^>]*>", _shorten, svg)
    svg = re.sub("<svg [^>]*>", _as_wide_as_a_page, svg, count=1) if on_page else svg
    write_atomically(path, svg or written)


def _as_wide_as_a_page(tag: re.Match[str]) -> str:
    wide, high = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', tag[0])[0])
    size = {"width": PAGE_WIDTH, "height": round(PAGE_WIDTH * high / wide)}
    return re.sub(r'(width|height)="[\d.]+pt"', lambda side: f'{side[1]}="{size[side[1]]}"', tag[0])


def _shorten(tag: re.Match[str]) -> str:
    """Coordinates to a hundredth of a point."""
    return re.sub(r"(\.\d\d)\d+", r"\1", tag[0].replace("\n", ""))
