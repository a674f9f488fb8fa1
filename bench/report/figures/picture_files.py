"""Writes a figure as SVG, PDF or PNG; the same input gives the same bytes."""

import io
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from xml.sax.saxutils import escape

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text

from bench.errors import UserError
from bench.report.figures import style
from bench.report.figures.small_svg import make_small
from bench.report.figures.style import LIGHT, Theme
from bench.results.atomic import write_atomically

DOTS_PER_INCH = 300
"""Dots per inch of a PNG, as journals ask for."""

_UNDATED = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer"), "png": ("Software",)}


def write_figure(
    path: Path,
    draw: Callable[[Theme], Figure],
    *,
    title: str = "",
    description: str = "",
    theme: Theme = LIGHT,
) -> None:
    """Draw a figure in a theme and write it in the format that the path's ending names.

    Title and description stand in the file, for whoever does not see the picture, unless the page says them.
    The light theme as SVG follows the screen.

    Raises:
        UserError: the path ends in none of .svg, .pdf and .png.
    """
    ending = path.suffix.lower().removeprefix(".")
    if ending not in _UNDATED:
        raise UserError(f"{path} is no kind of picture", "let --out end in .svg, .pdf or .png")
    metadata: dict[str, str | None] = dict.fromkeys(_UNDATED[ending])
    if title:
        metadata |= {"Title": title, "Subject" if ending == "pdf" else "Description": description}
    content = io.BytesIO()
    with rc_context(style.rc(theme)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script without font
        figure = draw(theme)
        for words in figure.findobj(Text) if ending == "svg" else ():
            words.set_path_effects([])  # with them words would be outlines of letters
        figure.savefig(content, format=ending, dpi=DOTS_PER_INCH, metadata=metadata)
    written = content.getvalue()
    write_atomically(path, _finish_svg(written.decode(), theme, description) if ending == "svg" else written)


def _finish_svg(svg: str, theme: Theme, description: str) -> str:
    """Small, and with the description where screen readers look for it; a light one turns dark by itself."""
    light, dark = asdict(LIGHT), asdict(style.DARK)
    colours = {light[name]: dark[name] for name in light} if theme is LIGHT else {}
    svg = make_small(svg, ground=theme.ground, dark=colours)
    svg = svg.replace("<svg ", '<svg role="img" ', 1)
    return svg.replace("</title>", f"</title>\n<desc>{escape(description)}</desc>", 1)
