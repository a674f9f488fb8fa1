"""Writes a figure as SVG, PDF or PNG; the same input gives the same bytes."""

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from xml.sax.saxutils import escape

from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.report.figures import style
from bench.report.figures.style import DARK, LIGHT, Theme
from bench.results.atomic import write_atomically

_UNDATED = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Creator", "Producer"), "png": ("Software",)}


def write_figure(
    path: Path,
    draw: Callable[[Theme], Figure],
    *,
    title: str = "",
    description: str = "",
    theme: Theme = LIGHT,
    on_page: bool = True,
) -> None:
    """Draw a figure in a theme and write it in the format that the path's ending names: .svg, .pdf or .png.

    Title and description stand in the file, for whoever does not see the picture, unless the page says them.
    The light theme as SVG follows the screen. `on_page` makes an SVG as wide as a page shows it.
    """
    ending = path.suffix.lower().removeprefix(".")
    metadata: dict[str, str | None] = dict.fromkeys(_UNDATED[ending])
    if title:
        metadata |= {"Title": title, "Subject" if ending == "pdf" else "Description": description}
    content = io.BytesIO()
    with rc_context(style.rc(theme)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script without font
        draw(theme).savefig(content, format=ending, dpi=300, metadata=metadata)
    written = content.getvalue()
    svg = _finish_svg(written.decode(), theme, description) if ending == "svg" else ""
    svg = re.sub("<svg [^>]*>", _as_wide_as_a_page, svg, count=1) if on_page else svg
    write_atomically(path, svg or written)


def _as_wide_as_a_page(tag: re.Match[str]) -> str:
    wide, high = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', tag[0])[0])
    size = {"width": style.PAGE_WIDTH, "height": round(style.PAGE_WIDTH * high / wide)}
    return re.sub(r'(width|height)="[\d.]+pt"', lambda side: f'{side[1]}="{size[side[1]]}"', tag[0])


def _finish_svg(svg: str, theme: Theme, description: str) -> str:
    """Put the description where screen readers look for it; a light picture turns dark on a dark one."""
    svg = svg[svg.index("<svg ") :].replace("<svg ", '<svg role="img" ', 1)
    svg = re.sub(r" *<metadata>.*?</metadata>\n", "", svg, flags=re.DOTALL)
    svg = svg.replace("</title>", f"</title>\n<desc>{escape(description)}</desc>", 1)
    # Tags alone: in texts every "<" is written as "&lt;".
    svg = re.sub("<(?:path|use|text) [^>]*>", _shorten, svg)
    svg = re.sub(r'<g id="[\w.]+_\d+">', "<g>", re.sub("(?m)^ +(?=<)", "", svg))
    svg = svg.replace("</style>", "text{font-family:DejaVu Sans,Verdana,Arial,sans-serif}</style>", 1)
    if theme is not LIGHT:
        return svg
    rules = [
        f'[style*="{kind}: {colour}"]{{{kind}:{asdict(DARK)[name]}!important}}'
        for name, colour in asdict(LIGHT).items()
        for kind in ("fill", "stroke")
    ]
    rules = ["@media screen and (prefers-color-scheme:dark){", *rules, "}"]
    return svg.replace("</style>", "\n".join([*rules, "</style>"]), 1)


def _shorten(tag: re.Match[str]) -> str:
    """Coordinates to a hundredth of a point, and no attribute that stands at every text or says nothing."""
    rounded = re.sub(r"(\.\d\d)\d+", r"\1", tag[0].replace("\n", ""))
    return re.sub(r"""font-family: [^;]*; | transform="rotate\(-0 [^"]*\"""", "", rounded)
