"""Tables in the terminal."""

from collections.abc import Iterable
from textwrap import fill

from rich import box
from rich import table as rich
from rich.text import Text

from bench.report.content.blocks import Cell, Small, Table, inlines
from bench.report.words.formatting import one_line

WIDTH = 100
"""Of a table, in characters at most."""

NARROW = 8
"""Characters of a line of a header."""


def render_table(title: str, table: Table, below: Iterable[str] = ()) -> rich.Table:
    """A table under its title, with lines below it."""
    shown = rich.Table(
        title=Text(one_line(title)),
        caption=Text("\n".join(map(one_line, below)), justify="left"),
        box=box.HORIZONTALS,
        padding=0,
        width=WIDTH,
    )
    for column in table.columns:
        shown.add_column(
            fill(column.header.replace("difference", "diff."), NARROW, break_long_words=False),
            justify="left" if column.is_text else "right",
            overflow="fold",
            # only names give way where space is short: a broken number reads as another one
            no_wrap=column.header != "backend",
        )
    for row in table.rows:
        shown.add_row(*map(_cell, row))
    return shown


def _cell(cell: Cell) -> Text:
    """Its words; what is small stands on a line of its own."""
    parts = inlines(cell.text)
    return Text(
        "".join(
            part if isinstance(part, str) else "\n" * isinstance(part, Small) + part.words for part in parts
        )
    )
