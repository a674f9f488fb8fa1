"""Blocks in Markdown as GitHub shows it."""

import html
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from bench.report.content import blocks
from bench.report.words.formatting import one_line


def render_markdown(content: Iterable[blocks.Block]) -> str:
    """The page; its lines end with one line break."""
    return "\n".join(_lines(content))


def escaped(words: str) -> str:
    """Foreign text, inside a table or out of it: shown as it is, never interpreted."""
    words = html.escape(one_line(words), quote=False)
    words = re.sub(r"[\\`*|~$]|\](?=[(\[:])", r"\\\g<0>", words)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", words)  # inside a word it means nothing


def _lines(content: Iterable[blocks.Block]) -> list[str]:
    """The lines of blocks, an empty one behind each block."""
    return [line for block in content for line in _block(block)]


def _block(block: blocks.Block) -> list[str]:
    match block:
        case blocks.Heading():
            return [f"{'#' * block.level} {escaped(block.words)}", ""]
        case blocks.Paragraph():
            return [_text(block.text), ""]
        case blocks.Bullets():
            marks = (f"{place}." if block.is_numbered else "-" for place in range(1, len(block.items) + 1))
            return [*(f"{mark} {_text(item)}" for mark, item in zip(marks, block.items, strict=True)), ""]
        case blocks.Table():
            return _table(block)
        case blocks.Picture():
            note = [escaped(block.note), ""] if block.note else []
            return [f"![{escaped(block.caption)}]({quote(block.path.name)})", "", *note]
        case blocks.Folded():
            anchor = [f'<a id="{quote(block.anchor)}"></a>', ""] if block.anchor else []
            summary = html.escape(one_line(block.summary), quote=False)
            summary = f"<b>{summary}</b>" if block.is_section else summary
            first = [f"<details><summary>{summary}</summary>", ""]  # Markdown inside needs the empty lines
            return [*anchor, *first, *_lines(block.blocks), "</details>", ""]


def _table(block: blocks.Table) -> list[str]:
    return [
        _row([escaped(column.header) for column in block.columns]),
        _row(["---" if column.is_text else "---:" for column in block.columns]),
        *(_row([_text(cell) for cell in row]) for row in block.rows),
        "",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: blocks.Text) -> str:
    return "".join(map(_inline, blocks.inlines(text)))


def _inline(part: blocks.Inline) -> str:
    match part:
        case str():
            # a part's own spaces at its ends separate it from its neighbours
            return re.sub(r"\S(.*\S)?", lambda words: escaped(words[0]), part, count=1, flags=re.DOTALL)
        case blocks.Bold():
            return f"**{escaped(part.words)}**"
        case blocks.Code():
            return f"`{one_line(part.words).replace('`', chr(39))}`"
        case blocks.Small():
            return f" {escaped(part.words)}"
        case blocks.Link():
            return f"[{escaped(part.words)}]({quote(part.target, safe='/#')})"
