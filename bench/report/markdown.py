"""Tables in Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from bench.report.render.markdown import escaped

T = TypeVar("T")


def table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[str] = (), *, escape: bool = True
) -> list[str]:
    """The lines of a table, and an empty one behind it.

    Args:
        headers: the names of the columns.
        rows: as many cells each.
        numeric: the columns that are aligned to the right.
        escape: whether cells are foreign text; without it they are Markdown already.
    """
    right = set(numeric)
    return [
        _row(headers),
        _row(["---:" if name in right else "---" for name in headers]),
        *(_row([escaped(cell) if escape else cell for cell in row]) for row in rows),
        "",
    ]


def table_of(
    rows: Iterable[T], columns: Mapping[str, Callable[[T], str]], numeric: Iterable[str] = ()
) -> list[str]:
    """The same of things of one kind: a row for each, of what the columns say of it."""
    return table(list(columns), ([cell(one) for cell in columns.values()] for one in rows), numeric)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
