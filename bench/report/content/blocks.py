"""What pages are made of: headings, paragraphs, tables, pictures, folded parts.

A page is a list of blocks; bench/report/render/ turns them into a format. Words are foreign text, which no
renderer interprets.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True)
class _Words:
    words: str


class Bold(_Words):
    """Words that stand out."""


class Code(_Words):
    """A command or a setting."""


class Small(_Words):
    """Words below the main words of a cell, such as an interval; after them where a cell has one line."""


@dataclass(frozen=True)
class Link:
    """Words that lead elsewhere: to a file beside the page, or to `#anchor` on it."""

    words: str
    target: str


Inline: TypeAlias = str | Bold | Code | Small | Link
Text: TypeAlias = Inline | Sequence[Inline]


def inlines(text: Text) -> Sequence[Inline]:
    """The parts of a text in order."""
    return [text] if isinstance(text, Inline) else text


def plain(text: Text) -> str:
    """The words of a text alone, its parts separated as they are."""
    parts = ((" " if isinstance(part, Small) else "", part) for part in inlines(text))
    return "".join(gap + (part if isinstance(part, str) else part.words) for gap, part in parts)


def with_code(words: str) -> list[Inline]:
    """Words written in this code (not by users); what stands in backticks is code."""
    return [Code(part) if place % 2 else part for place, part in enumerate(words.split("`"))]


@dataclass(frozen=True)
class Heading:
    """A heading of a part of the page; the title has level 1."""

    words: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: Text


@dataclass(frozen=True)
class Bullets:
    """A list; a numbered one begins with 1."""

    items: Sequence[Text]
    is_numbered: bool = False


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table over things of one kind."""

    header: str
    cell: Callable[[Row], Text]  # the cell of a thing
    is_text: bool = False  # whether it is aligned to the left; all others hold numbers


def text_column(header: str, cell: Callable[[Row], Text]) -> Column[Row]:
    """A column that holds no numbers."""
    return Column(header, cell, is_text=True)


@dataclass(frozen=True)
class Table:
    """A table."""

    columns: Sequence[Column[Any]]  # header and alignment of each; their cells are already filled
    rows: Sequence[Sequence[Text]]  # as many cells each as there are columns


def table(things: Iterable[Row], columns: Sequence[Column[Row]]) -> Table:
    """A table with a row for each thing."""
    return Table(columns, [[column.cell(thing) for column in columns] for thing in things])


def table_of_texts(
    headers: Sequence[str], rows: Iterable[Sequence[Text]], *, text_columns: Collection[str]
) -> Table:
    """A table of given cells; those of `text_columns` are aligned to the left."""
    return Table([Column[Text](header, plain, header in text_columns) for header in headers], [*rows])


@dataclass(frozen=True)
class Picture:
    """A picture in a file beside the page, what it shows in words, and how to read it."""

    path: Path
    caption: str
    note: str = ""


@dataclass(frozen=True)
class Folded:
    """A part that opens at a click."""

    summary: str  # what is seen before
    blocks: Sequence["Block"]
    anchor: str = ""  # where links lead to it, and open it; empty without any
    is_section: bool = False  # whether it is a part of the page, and not a detail within one


Block: TypeAlias = Heading | Paragraph | Bullets | Table | Picture | Folded
