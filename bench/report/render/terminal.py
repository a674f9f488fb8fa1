"""Tables in the terminal."""

from collections.abc import Iterable
from textwrap import fill

from rich import box
from rich import table as rich
from rich.text import Text

from bench.closing import WIDTH
from bench.report.content.blocks import Small, Table, inlines, plain
from bench.report.words.formatting import one_line

NARROW = 9  # the least width of a line of a header, in characters


def render_table(table: Table, below: Iterable[str] = (), title: str = "") -> rich.Table:
    """A table of `WIDTH` characters under its title, where it has one, with lines below it."""
    rows = _cells(table, before_small=" ")
    widths = [
        max(map(len, [*column.header.split(), *cells]))
        for column, cells in zip(table.columns, zip(*rows, strict=True), strict=True)
    ]
    if sum(widths) + len(widths) > WIDTH:
        rows, widths = _cells(table, before_small="\n"), [NARROW] * len(widths)
    grid = rich.Table(
        title=Text(one_line(title)) if title else None,
        caption=Text("\n".join(map(one_line, below)), justify="left"),
        box=box.HORIZONTALS,
        padding=0,
        width=WIDTH,
    )
    for column, width in zip(table.columns, widths, strict=True):
        grid.add_column(
            _header(column.header, max(NARROW, width)),
            justify="left" if column.is_text else "right",
            overflow="fold",
            # only names give way where space is short: a broken number reads as another one
            no_wrap=column.header not in ("backend", "machine"),
        )
    for cells in rows:
        grid.add_row(*map(Text, cells))
    return grid


def _header(words: str, width: int) -> str:
    """Lines of this width; an interval's bracket stays whole."""
    lines = [words] if len(words) <= width else words.replace(" [", "\n[").splitlines()
    return "\n".join(fill(line, width, break_long_words=False) for line in lines)


def _cells(table: Table, *, before_small: str) -> list[list[str]]:
    """The words of every row; small text stands beside the rest, or on a separate line."""
    return [
        [
            "".join(
                before_small + part.words if isinstance(part, Small) else plain(part)
                for part in inlines(cell)
            )
            for cell in row
        ]
        for row in table.rows
    ]
