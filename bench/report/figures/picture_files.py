"""Writes a figure as SVG, PDF or PNG; the same input gives the same bytes."""

import io
import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.errors import UserError
from bench.report.figures import style
from bench.report.figures.style import Theme
from bench.results.atomic import write_atomically

DOTS_PER_INCH = 300
"""Of a PNG: as journals ask for."""

_CURVE = r"C (\S+ ){5}\S+ \n"
_CIRCLE = re.compile(
    rf"M (?P<x>\S+) (?P<top>\S+) \nC (\S+ ){{4}}(?P<x1>\S+) (?P<y1>\S+) \n(?:{_CURVE}){{7}}z\n"
)
"""A circle as matplotlib writes it: eight Bézier curves, of which the first ends an eighth of a turn on."""

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
        _with_alternative(_with_short_circles(written.decode()), description) if ending == "svg" else written,
    )


def _with_short_circles(svg: str) -> str:
    """The same picture with each circle as two arcs: dotted hatches have hundreds, most of such a file."""

    def as_arcs(found: re.Match[str]) -> str:
        x, top, x1, y1 = (float(found[name]) for name in ("x", "top", "x1", "y1"))
        radius = math.hypot(x1 - x, x1 - x)  # of an eighth of a turn, the width is the radius over the root of 2
        across = math.copysign(2 * radius, y1 - top)
        return (
            f"M {found['x']} {found['top']}a {radius:.3g} {radius:.3g} 0 1 0 0 {across:.3g}"
            f"a {radius:.3g} {radius:.3g} 0 1 0 0 {-across:.3g}z\n"
        )

    return _CIRCLE.sub(as_arcs, svg)


def _with_alternative(svg: str, description: str) -> str:
    """The picture with its description where screen readers look for it."""
    svg = svg.replace("<svg ", '<svg role="img" ', 1)
    return svg.replace("</title>", f"</title>\n <desc>{escape(description)}</desc>", 1)
