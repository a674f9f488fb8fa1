"""Tables in the terminal."""

from collections.abc import Iterable
from textwrap import fill

from rich import box
from rich import table as rich
from rich.text import Text

from bench.report.content.blocks import Cell, Small, Table, inlines, plain
from bench.report.words.formatting import one_line

WIDTH = 100
"""A table's width, in characters."""

NARROW = 8
"""The width of a line of a header, in characters."""


def render_table(title: str, table: Table, below: Iterable[str] = ()) -> rich.Table:
    """A table under its title, with lines below it."""
    grid = rich.Table(
        title=Text(one_line(title)),
        caption=Text("\n".join(map(one_line, below)), justify="left"),
        box=box.HORIZONTALS,
        padding=0,
        width=WIDTH,
    )
    for column in table.columns:
        grid.add_column(
            _header(column.header),
            justify="left" if column.is_text else "right",
            overflow="fold",
            # only names give way where space is short: a broken number reads as another one
            no_wrap=column.header not in ("backend", "machine"),
        )
    for row in table.rows:
        grid.add_row(*map(_cell, row))
    return grid


def _header(words: str) -> str:
    """Narrow lines; an interval's bracket stays whole."""
    lines = words.replace("difference", "diff.").replace(" [", "\n[").splitlines()
    return "\n".join(fill(line, NARROW, break_long_words=False) for line in lines)


def _cell(cell: Cell) -> Text:
    """Its words; what is small stands on a line of its own."""
    parts = [f"\n{part.words}" if isinstance(part, Small) else plain(part) for part in inlines(cell.text)]
    return Text("".join(parts))
