"""A page in Markdown as one HTML file that needs nothing from elsewhere."""

import base64
import re
from html import escape
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt

ASSETS = Path(__file__).parent


def render_html(title: str, markdown: str, folder: Path) -> str:
    """The page under the title of its window; `folder` holds its pictures, which the file then contains.

    The Markdown has foreign text escaped (`bench.report.render.markdown`); its own HTML folds parts.
    """
    style, script = ((ASSETS / name).read_text(encoding="utf-8").rstrip() for name in ("page.css", "page.js"))
    content = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)

    def contain(image: re.Match[str]) -> str:
        """A picture as an image element: nothing in its file can change the page."""
        data = base64.b64encode((folder / unquote(image[1])).read_bytes()).decode()
        return f'<img src="data:image/svg+xml;base64,{data}"'

    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
</head>
<body>
{re.sub('<img src="([^"]+)"', contain, content)}
<script>
{script}
</script>
</body>
</html>
"""
