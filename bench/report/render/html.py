"""Blocks in HTML: one file that needs nothing from elsewhere."""

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from bench.report.content import blocks
from bench.report.words.formatting import one_line

ASSETS = Path(__file__).parent


def render_html(title: str, about: str, content: Iterable[blocks.Block]) -> str:
    """The page under the title of its window, with a line about it above everything."""
    style, script = ((ASSETS / name).read_text(encoding="utf-8").rstrip() for name in ("page.css", "page.js"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_words(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
</head>
<body>
<a class="skip" href="#models">To the table</a>
<header>
<p class="faint">{_words(about)}</p>
<button class="theme" type="button" id="theme">Change between light and dark</button>
</header>
<main>
{_all(content)}
</main>
<script>
{script}
</script>
</body>
</html>
"""


def _all(content: Iterable[blocks.Block]) -> str:
    return "\n".join(map(_block, content))


def _block(block: blocks.Block) -> str:
    match block:
        case blocks.Heading():
            return f"<h{block.level}>{_words(block.words)}</h{block.level}>"
        case blocks.Paragraph():
            return f"<p{_class('faint' if block.is_faint else '')}>{_text(block.text)}</p>"
        case blocks.Bullets():
            tag = "ol" if block.is_numbered else "ul"
            return f"<{tag}>{''.join(f'<li>{_text(item)}</li>' for item in block.items)}</{tag}>"
        case blocks.Table():
            return _table(block)
        case blocks.Picture():
            return _picture(block)
        case blocks.Pictures():
            return f'<div class="pictures">{_all(block.pictures)}</div>'
        case blocks.Box():
            label = escape(one_line(block.label))
            return f'<section{_class(block.look)} aria-label="{label}">\n{_all(block.blocks)}\n</section>'
        case blocks.Folded():
            summary = _words(block.summary)
            summary = f"<h2>{summary}</h2>" if block.is_section else summary
            anchor = _id(block.anchor)
            return f"<details{anchor}><summary>{summary}</summary>\n{_all(block.blocks)}\n</details>"


def _table(block: blocks.Table) -> str:
    """A table that scrolls sideways where the screen is narrow."""
    label = escape(f"{one_line(block.label)}, scrolls sideways".removeprefix(", "))
    headers = "".join(_header(column, is_sortable=block.is_sortable) for column in block.columns)
    rows = "\n".join(_row(row, block.columns) for row in block.rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}"{_id(block.anchor)}>'
        f"<table{_class('sortable' if block.is_sortable else '')}>\n<thead><tr>{headers}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _header(column: blocks.Column, *, is_sortable: bool) -> str:  # type: ignore[type-arg]  # of things of any kind
    words, number = _words(column.header), _class("" if column.is_text else "number")
    if is_sortable:
        return f'<th scope="col"{number} aria-sort="none"><button type="button">{words}</button></th>'
    return f'<th scope="col"{number}>{words}</th>'


def _row(cells: Sequence[blocks.Cell], columns: Sequence[blocks.Column]) -> str:  # type: ignore[type-arg]
    tags = ["th" if not place and column.is_text else "td" for place, column in enumerate(columns)]
    return f"<tr>{''.join(map(_cell, tags, cells, columns))}</tr>"


def _cell(tag: str, cell: blocks.Cell, column: blocks.Column) -> str:  # type: ignore[type-arg]
    key = ""
    if column.sort_key:
        key = f' data-key="{"" if cell.sort_key is None else repr(float(cell.sort_key))}"'
    look = _class(" ".join(filter(None, ["" if column.is_text else "number", cell.look])))
    scope = ' scope="row"' if tag == "th" else ""
    return f"<{tag}{scope}{look}{key}>{_text(cell.text)}</{tag}>"


def _picture(block: blocks.Picture) -> str:
    """A picture as an image element: nothing in its file can change the page."""
    data = base64.b64encode(block.path.read_bytes()).decode()
    caption, note = _words(block.caption), _words(block.note)
    below = f"{caption}<br>{note}" if note else caption
    return (
        f'<figure id="figure-{escape(block.path.stem)}"><img src="data:image/svg+xml;base64,{data}" '
        f'alt="{caption}; the tables hold its numbers">\n<figcaption>{below}</figcaption></figure>'
    )


def _text(text: blocks.Text) -> str:
    return "".join(map(_inline, blocks.inlines(text)))


def _inline(part: blocks.Inline) -> str:
    match part:
        case str():
            return escape(part)
        case blocks.Bold():
            return f"<strong>{_words(part.words)}</strong>"
        case blocks.Code():
            return f"<code>{_words(part.words)}</code>"
        case blocks.Small():
            return f"<br><small>{_words(part.words)}</small>"
        case blocks.Link():
            return f'<a href="{quote(part.target, safe="/#")}">{_words(part.words)}</a>'


def _words(words: str) -> str:
    return escape(one_line(words))


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _id(anchor: str) -> str:
    return f' id="{escape(anchor)}"' if anchor else ""
