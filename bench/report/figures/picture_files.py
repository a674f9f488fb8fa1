"""Writes a figure as SVG, PDF or PNG; the same input gives the same bytes."""

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.errors import UserError
from bench.report.figures import style
from bench.report.figures.style import Theme
from bench.report.figures.svg_circles import shorten_circles
from bench.results.atomic import write_atomically

DOTS_PER_INCH = 300
"""Of a PNG: as journals ask for."""

_UNDATED = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer"), "png": ("Software",)}


def write_figure(
    path: Path, draw: Callable[[Theme], Figure], *, theme: Theme, title: str, description: str
) -> None:
    """Draw a figure in a theme and write it in the format that the path's ending names.

    Args:
        path: ends in .svg, .pdf or .png.
        draw: the figure in a theme.
        theme: light or dark.
        title: in the file, for whoever does not see the picture.
        description: all that the picture shows; likewise.

    Raises:
        UserError: another ending.
    """
    ending = path.suffix.lower().removeprefix(".")
    if ending not in _UNDATED:
        raise UserError(f"{path} is no kind of picture", "let --out end in .svg, .pdf or .png")
    metadata = dict.fromkeys(_UNDATED[ending]) | {"Title": title}
    metadata |= {"Subject": description} if ending == "pdf" else {"Description": description}
    content = io.BytesIO()
    with rc_context(style.rc(theme)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script without font
        draw(theme).savefig(content, format=ending, dpi=DOTS_PER_INCH, metadata=metadata)
    written = content.getvalue()
    write_atomically(
        path,
        _with_alternative(shorten_circles(written.decode()), description) if ending == "svg" else written,
    )


def _with_alternative(svg: str, description: str) -> str:
    """The picture with its description where screen readers look for it."""
    svg = svg.replace("<svg ", '<svg role="img" ', 1)
    return svg.replace("</title>", f"</title>\n <desc>{escape(description)}</desc>", 1)
